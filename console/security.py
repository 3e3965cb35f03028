"""Response headers that browsers enforce: a strict Content-Security-Policy and its companions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Final

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse

Respond = Callable[[HttpRequest], HttpResponse]

# Pages of third parties that write style attributes. They still run no script but our own.
STYLED_BY_OTHERS: Final = ("/admin/", "/api/v1/docs/")


class SecurityHeadersMiddleware:
    """Gives each request a `csp_nonce` and each response its headers."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.csp_nonce = secrets.token_urlsafe(16)  # type: ignore[attr-defined]
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", content_policy(request))
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"
        )
        response.headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
        return response


class TextOnlyMiddleware:
    """Refuses NUL in addresses and forms: nobody types it, and PostgreSQL cannot hold it."""

    def __init__(self, get_response: Respond) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if any("\0" in text for text in _texts(request)):
            raise BadRequest("NUL in the address or in a field")
        return self.get_response(request)


def _texts(request: HttpRequest) -> Iterator[str]:
    yield request.path
    for form in (request.GET, request.POST):
        for name, values in form.lists():
            yield from (name, *values)


def content_policy(request: HttpRequest) -> str:
    """The policy of one response. The nonce is for the import map, our only inline script."""
    styles = "'self' 'unsafe-inline'" if request.path.startswith(STYLED_BY_OTHERS) else "'self'"
    return "; ".join(
        (
            "default-src 'self'",
            f"script-src 'self' 'nonce-{request.csp_nonce}'",  # type: ignore[attr-defined]
            "worker-src 'self'",  # the live map is painted in one
            f"style-src {styles}",
            "img-src 'self' data:",  # Tabler draws check marks and arrows from data: images
            "connect-src 'self'",  # the live feed too: browsers count its wss:// as the same origin
            "object-src 'none'",
            "base-uri 'none'",
            "form-action 'self'",
            "frame-ancestors 'none'",
        )
    )
