"""One question to a Prometheus: bounded in time and size, to http and https alone.

An admin names the address, and it may be inside the customer's network: that is where Prometheus
is. What a cloud gives away on link-local addresses is not asked, and nothing is followed.
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import time
import urllib.error
import urllib.request
from typing import Final
from urllib.parse import urlencode, urlsplit

from django.conf import settings

from console.errors import Invalid, Unavailable
from console.prometheus import answers
from console.prometheus.answers import Sample

TIMEOUT_S: Final = 5.0
MOST_BYTES: Final = 4 << 20
_CHUNK: Final = 1 << 16


# Nothing but these two schemes, no redirects, and no proxy that the environment names.
_OPENER: Final = urllib.request.OpenerDirector()
for _handler in (
    urllib.request.HTTPHandler(),
    urllib.request.HTTPSHandler(),
    urllib.request.HTTPErrorProcessor(),
    urllib.request.HTTPDefaultErrorHandler(),
):
    _OPENER.add_handler(_handler)


def ask(url: str, query: str) -> list[Sample]:
    """What the query answers now. Raises Invalid for an address or query that cannot be right, and
    Unavailable where nothing answers in time."""
    _check(url)
    address = f"{url.rstrip('/')}/api/v1/query?{urlencode({'query': query})}"
    request = urllib.request.Request(address, headers=_headers())  # noqa: S310  (_check)
    try:
        with _OPENER.open(request, timeout=TIMEOUT_S) as response:
            return answers.read(_body(response))
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error) from error
    except (OSError, http.client.HTTPException) as error:
        raise Unavailable(f"{_host(url)} does not answer: {_why(error)}.") from error


def _check(url: str) -> None:
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise Invalid("This is no address.", {"url": "no address"}) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Invalid("Give an address that begins with http:// or https://.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise Invalid("Give the address alone, without a user, a query or a #.")
    try:
        found = socket.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"No address is known of {parts.hostname}.") from error
    if any(ipaddress.ip_address(str(one[4][0]).partition("%")[0]).is_link_local for one in found):
        raise Invalid(f"{parts.hostname} is a link-local address, which is not asked.")


def _headers() -> dict[str, str]:
    secret = settings.PROMETHEUS_AUTHORIZATION
    return {"Accept": "application/json"} | ({"Authorization": secret} if secret else {})


def _body(response: http.client.HTTPResponse) -> bytes:
    """All of it; a server that sends for ever or far too slowly is left alone."""
    until, parts, size = time.monotonic() + TIMEOUT_S, [], 0
    while part := response.read1(_CHUNK):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise Invalid(f"The answer is larger than {MOST_BYTES >> 20} MiB: sum or select more.")
        if time.monotonic() > until:
            raise TimeoutError
    return b"".join(parts)


def _refusal(error: urllib.error.HTTPError) -> Exception:
    """Prometheus tells what is wrong with a query in the body of a 4xx."""
    if error.code in (401, 403):
        return Unavailable(
            f"It refuses us ({error.code}): set MUXFLOW_PROMETHEUS_AUTHORIZATION of web and worker."
        )
    if 300 <= error.code < 400:
        to = error.headers.get("Location", "nowhere")[:200]
        return Unavailable(f"It redirects to {to}, which is not followed: give that address.")
    try:
        answers.read(error.read(_CHUNK))
    except Invalid as told:
        if "refuses the query" in str(told):
            return told
    return Unavailable(f"It answers {error.code} to a query: is this the address of a Prometheus?")


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(reason, TimeoutError):
        return f"nothing came in {TIMEOUT_S:g} s"
    if isinstance(reason, ConnectionRefusedError):
        return "it refuses the connection"
    return str(reason)[:200] or type(reason).__name__


def _host(url: str) -> str:
    return urlsplit(url).netloc
