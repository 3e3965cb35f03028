"""`/metrics` on the loopback, answered by the agent's own loop: no thread, no library.

Bounded in all it does: few connections, short requests, a deadline on each, GET alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from agents.metrics.exposition import CONTENT_TYPE

log = logging.getLogger(__name__)

HOST: Final = "127.0.0.1"
PATH: Final = "/metrics"
MAX_REQUEST_BYTES: Final = 8 << 10
MAX_CONNECTIONS: Final = 8
DEADLINE_S: Final = 5.0
PLAIN: Final = "text/plain; charset=utf-8"


class MetricsServer:
    """Renders anew for each request."""

    def __init__(self, render: Callable[[], str]) -> None:
        self._render = render
        self._connections = 0
        self._server: asyncio.Server | None = None

    async def start(self, port: int) -> int:
        """The port it listens on. Raises OSError."""
        self._server = await asyncio.start_server(self._serve, HOST, port, limit=MAX_REQUEST_BYTES)
        listening: int = self._server.sockets[0].getsockname()[1]
        log.info("metrics on http://%s:%d%s", HOST, listening, PATH)
        return listening

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request, then the end of the connection; at once, of one too many."""
        if self._connections >= MAX_CONNECTIONS:
            writer.transport.abort()
            return
        self._connections += 1
        try:
            async with asyncio.timeout(DEADLINE_S):
                writer.write(await self._answer(reader))
                await writer.drain()
        except (TimeoutError, OSError):
            writer.transport.abort()
        finally:
            self._connections -= 1
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader) -> bytes:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except (asyncio.LimitOverrunError, asyncio.IncompleteReadError):
            return response(HTTPStatus.BAD_REQUEST, "not a short HTTP request\n")
        status, body = self._routed(head)
        return response(status, body)

    def _routed(self, head: bytes) -> tuple[HTTPStatus, str]:
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return HTTPStatus.BAD_REQUEST, "not an HTTP request\n"
        if words[0] != b"GET":
            return HTTPStatus.METHOD_NOT_ALLOWED, "only GET\n"
        if words[1].partition(b"?")[0] != PATH.encode():
            return HTTPStatus.NOT_FOUND, f"only {PATH}\n"
        try:
            return HTTPStatus.OK, self._render()
        except Exception:
            log.exception("the metrics could not be rendered")
            return HTTPStatus.INTERNAL_SERVER_ERROR, "see the log of the agent\n"


def response(status: HTTPStatus, body: str) -> bytes:
    content = body.encode()
    kind = CONTENT_TYPE if status is HTTPStatus.OK else PLAIN
    allow = "Allow: GET\r\n" if status is HTTPStatus.METHOD_NOT_ALLOWED else ""
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n{allow}"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content
