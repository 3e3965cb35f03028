"""`/metrics` of a process that serves no pages: a worker, beat."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from ipaddress import ip_address
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from console.metrics import access
from console.metrics.process import REGISTRY

log = logging.getLogger(__name__)

Respond = Callable[..., Any]
Application = Callable[[dict[str, Any], Respond], Iterable[bytes]]

DEADLINE_S: Final = 5.0


class Handler(WSGIRequestHandler):
    """Silent, and patient for a few seconds only."""

    timeout = DEADLINE_S

    def log_message(self, format: str, *args: Any) -> None: ...


def guarded(application: Application, token: str) -> Application:
    """Only for those who bring the token."""

    def answer(environ: dict[str, Any], respond: Respond) -> Iterable[bytes]:
        refusal = access.refusal(environ.get("HTTP_AUTHORIZATION"), token)
        if refusal is None:
            return application(environ, respond)
        status = f"{refusal.status} {'Forbidden' if refusal.status == 403 else 'Unauthorized'}"
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        if refusal.challenge:
            headers.append(("WWW-Authenticate", refusal.challenge))
        respond(status, headers)
        return [f"{refusal.sentence}\n".encode()]

    return answer


def serve(host: str, port: int, token: str) -> WSGIServer | None:
    """In a thread of its own. On a loopback address without a token, anybody there may read. None
    when the address cannot be had: a worker does its work all the same."""
    application: Application = make_wsgi_app(REGISTRY)
    if token or not ip_address(host).is_loopback:
        application = guarded(application, token)
    try:
        server = make_server(host, port, application, ThreadingWSGIServer, Handler)
    except OSError as error:
        log.error("no metrics of this process: %s:%d cannot be had: %s", host, port, error)
        return None
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    log.info("metrics on http://%s:%d/metrics", host, server.server_port)
    return server
