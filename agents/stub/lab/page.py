"""The services' own metrics, for the agent and for Prometheus: http://127.0.0.1:PORT/SERVICE"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agents.stub.lab.service import Service, Tally


def serve(services: Mapping[str, Service], port: int) -> None:
    """In a thread of its own. Raises OSError when the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            service = services.get(self.path.strip("/"))
            if service is None:
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            body = exposition(service.tally).encode()
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_words: object) -> None:
            """Once a second: nothing to log."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()


def exposition(tally: Tally) -> str:
    """As the clients saw it: from the moment a request was due."""
    name = "request_latency_seconds"
    buckets = [*tally.buckets.items(), ("+Inf", tally.answered)]
    lines = [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in buckets]
    total = [f"{name}_sum {tally.total_s:.6f}", f"{name}_count {tally.answered}"]
    return "\n".join([f"# TYPE {name} histogram", *lines, *total, ""])
