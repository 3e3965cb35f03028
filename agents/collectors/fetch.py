"""Reading a metrics page: bounded in size and in time, over one connection that is kept."""

from __future__ import annotations

import http.client
import time
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from agents.collectors.base import Unavailable

MOST_BYTES: Final = 4 << 20
DEADLINE_S: Final = 1.0
CHUNK_BYTES: Final = 64 << 10


@dataclass(frozen=True, slots=True)
class Address:
    """Where a page is. No redirect is followed from there."""

    secure: bool
    host: str
    port: int | None
    path: str


def address(url: str) -> Address:
    """Of an http:// or https:// URL; a fragment is no part of it. Raises Unavailable."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise Unavailable(f"{url!r} is not an address: {error}") from error
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Unavailable(f"{url!r} is not an http:// or https:// address")
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    return Address(parts.scheme == "https", parts.hostname, port, path + query)


class Page:
    """One page that is read again and again."""

    def __init__(
        self, url: str, deadline_s: float = DEADLINE_S, most_bytes: int = MOST_BYTES
    ) -> None:
        """Raises Unavailable for what is not an address of a page."""
        self.url = url
        self._address = address(url)
        self._deadline_s, self._most_bytes = deadline_s, most_bytes
        self._connection: http.client.HTTPConnection | None = None

    def read(self) -> str:
        """The text. Raises Unavailable."""
        kept = self._connection is not None
        try:
            try:
                return self._read()
            except (http.client.HTTPException, OSError):
                self.close()
                if not kept:
                    raise
                # The other end closed a connection that was kept too long: that is no failure.
                return self._read()
        except (http.client.HTTPException, OSError) as error:
            self.close()
            raise Unavailable(f"{self.url}: {str(error) or type(error).__name__}") from error
        except Unavailable:
            self.close()
            raise

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _read(self) -> str:
        began = time.monotonic()
        connection = self._connected()
        connection.request(
            "GET", self._address.path, headers={"Accept": "text/plain;version=0.0.4"}
        )
        with connection.getresponse() as response:
            if response.status != http.client.OK:
                raise Unavailable(f"{self.url} answers {response.status} {response.reason}")
            told = body(response, self.url, self._most_bytes, began, self._deadline_s)
            return told.decode(errors="replace")

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            kind = (
                http.client.HTTPSConnection if self._address.secure else http.client.HTTPConnection
            )
            self._connection = kind(
                self._address.host, self._address.port, timeout=self._deadline_s
            )
        return self._connection


def body(
    response: http.client.HTTPResponse, url: str, most_bytes: int, began: float, within_s: float
) -> bytes:
    """All of it, in `within_s` since `began` (monotonic seconds). Raises Unavailable for what is
    too long, takes too long or ends too soon, and what `http.client` raises."""
    told = bytearray()
    while chunk := response.read1(CHUNK_BYTES):
        told += chunk
        if len(told) > most_bytes:
            raise Unavailable(f"{url} answers more than {most_bytes} bytes")
        if time.monotonic() - began > within_s:
            raise Unavailable(f"{url} answers for longer than {within_s:g} s")
    if response.length:
        raise Unavailable(f"{url} ended {response.length} bytes before its end")
    return bytes(told)
