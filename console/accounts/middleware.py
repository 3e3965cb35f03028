"""Every page asks for a sign-in, except those that say otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.contrib.auth.middleware import LoginRequiredMiddleware
from django.http import HttpRequest, HttpResponseBase

# Probes and static files are open; the API, the admin and the metrics have ways in of their own.
OPEN: Final = ("/healthz", "/readyz", "/api/", "/static/", "/admin/", "/metrics")


class SignInRequiredMiddleware(LoginRequiredMiddleware):
    """Django's own, with some addresses left to their own rules."""

    def process_view(
        self,
        request: HttpRequest,
        view_func: Callable[..., HttpResponseBase],
        view_args: tuple[Any, ...],
        view_kwargs: dict[str, Any],
    ) -> HttpResponseBase | None:
        if request.path.startswith(OPEN):
            return None
        return super().process_view(request, view_func, view_args, view_kwargs)
