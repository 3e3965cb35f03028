"""The Kubernetes API, as far as a node needs it: GET, with nothing but the standard library.

Each request reads the token file, and each connection the CA file: the kubelet renews both in
place. No redirect is followed, no proxy asked, and every answer is bounded in size and in time.
"""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from agents.collectors import fetch
from agents.collectors.base import Unavailable
from agents.kubernetes import objects

TIMEOUT_S: Final = 10.0
DEADLINE_S: Final = 30.0
MOST_BYTES: Final = 16 << 20
# etcd takes no object over 1.5 MiB; as JSON, with its event around it, it is little more.
MOST_LINE_BYTES: Final = 4 << 20
MOST_TOKEN_BYTES: Final = 64 << 10
# A watch over a connection that is dead without a word: seen after a minute.
KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 30), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


class Refused(Unavailable):
    """The API answered, with something else than what was asked for."""

    def __init__(self, sentence: str, code: int, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.code, self.retry_after_s = code, retry_after_s


@dataclass(frozen=True, slots=True)
class Access:
    """Where the API is and how to be let in. Without `ca` the machine's own authorities hold."""

    url: str
    token: Path | None = None
    ca: Path | None = None


class Api:
    """One connection, used by one thread; `close` may come from another."""

    def __init__(self, access: Callable[[], Access], timeout_s: float = TIMEOUT_S) -> None:
        """`access` is asked for each connection; it may raise Unavailable."""
        self._find, self._timeout_s = access, timeout_s
        self._url = ""
        self._is_closed = False
        self._socket: socket.socket | None = None
        self._connection: http.client.HTTPConnection | None = None

    def get(self, path: str, query: Mapping[str, str]) -> bytes:
        """The whole answer. Raises Refused, Unavailable."""
        try:
            with self._answer(path, query, self._timeout_s) as response:
                return self._body(response)
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise self._broken(error) from error
        finally:
            self._hang_up()

    def watch(self, path: str, query: Mapping[str, str], timeout_s: float) -> Stream:
        """An answer that comes line by line; silence of `timeout_s` breaks it. Raises as `get`."""
        try:
            return Stream(self._answer(path, query, timeout_s), self._broken)
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise self._broken(error) from error
        except Unavailable:
            self._hang_up()
            raise

    def close(self) -> None:
        """For good. Also wakes a thread that waits for an answer."""
        self._is_closed = True
        self._hang_up()

    def _hang_up(self) -> None:
        """Two threads may do so at once."""
        line, self._socket = self._socket, None
        connection, self._connection = self._connection, None
        if line is not None:
            with suppress(OSError):  # it is closed already
                line.shutdown(socket.SHUT_RDWR)
        if connection is not None:
            connection.close()

    def _answer(
        self, path: str, query: Mapping[str, str], timeout_s: float
    ) -> http.client.HTTPResponse:
        """On a connection of its own: lists are rare, and a watch takes one whole."""
        self._hang_up()
        access = self._find()
        self._url = access.url
        headers = {"Accept": "application/json", "User-Agent": "muxflow-agent", **_bearer(access)}
        connection = self._connect(access)
        line = connection.sock  # the connection forgets it when the server ends it with the answer
        connection.request("GET", f"{path}?{urlencode(query)}", headers=headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise self._refused(response)
        line.settimeout(timeout_s)
        return response

    def _connect(self, access: Access) -> http.client.HTTPConnection:
        connection = _connection(access, self._timeout_s)
        connection.connect()
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in KEEPALIVE:
            connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
        self._connection, self._socket = connection, connection.sock
        if self._is_closed:
            raise Unavailable("the agent ends")
        return connection

    def _body(self, response: http.client.HTTPResponse) -> bytes:
        return fetch.body(response, self._url, MOST_BYTES, time.monotonic(), DEADLINE_S)

    def _refused(self, response: http.client.HTTPResponse) -> Refused:
        told = objects.status(self._body(response))
        return Refused(
            refusal(response.status, told.message or response.reason),
            response.status,
            _retry_after_s(response.headers.get("Retry-After", "")),
        )

    def _broken(self, error: Exception) -> Unavailable:
        self._hang_up()
        return Unavailable(f"{self._url}: {_reason(error)}")


class Stream:
    """The lines of a watch, as they come."""

    def __init__(
        self, response: http.client.HTTPResponse, broken: Callable[[Exception], Unavailable]
    ) -> None:
        self._response, self._broken = response, broken

    def __iter__(self) -> Iterator[bytes]:
        """Ends when the server ends it. Raises Unavailable; never an unfinished line."""
        while line := self._line():
            if not line.endswith(b"\n"):
                raise self._broken(EOFError("a watch ended within an event, or one is too long"))
            yield line

    def _line(self) -> bytes:
        try:
            return self._response.readline(MOST_LINE_BYTES)
        except (http.client.HTTPException, OSError, ValueError) as error:
            raise self._broken(error) from error


def _connection(access: Access, timeout_s: float) -> http.client.HTTPConnection:
    parts = urlsplit(access.url)
    host = parts.hostname or ""
    if parts.scheme == "https":
        return http.client.HTTPSConnection(
            host, parts.port, timeout=timeout_s, context=_authorities(access)
        )
    return http.client.HTTPConnection(host, parts.port, timeout=timeout_s)


def _bearer(access: Access) -> dict[str, str]:
    path = access.token
    if path is None:
        return {}
    try:
        with path.open("rb") as file:
            token = file.read(MOST_TOKEN_BYTES).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unavailable(f"cannot read the token in {path}: {_reason(error)}") from error
    if not token.isprintable() or not token or " " in token:
        raise Unavailable(f"{path} holds no token")
    return {"Authorization": f"Bearer {token}"}


def _authorities(access: Access) -> ssl.SSLContext:
    ca = access.ca
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise Unavailable(f"{ca} holds no certificate authority: {_reason(error)}") from error


def refusal(code: int, message: str) -> str:
    """What the API said, with the way out. What it says is cut: it is shown to people."""
    words = "".join(each for each in message[:200] if each.isprintable())
    way_out = WAYS_OUT.get(code, "")
    return f"the Kubernetes API answers {code} ({words}){way_out}"


WAYS_OUT: Final = {
    401: ": its token does not hold; does kubernetes_token name the file that is renewed?",
    403: ": its account may not list pods; docs/kubernetes.md has the role that it needs",
}


def _retry_after_s(header: str) -> float | None:
    """Seconds; the API never gives a date."""
    return float(header) if header.isdecimal() and len(header) < 10 else None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
