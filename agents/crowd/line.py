"""The connection of a node of a large fleet: no task and no timer of its own while it is up.

The protocol is that of the library without its input and output (`websockets.client`); here are
only the socket, and what a message is handed to.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, cast

from websockets.client import ClientProtocol
from websockets.frames import CloseCode, Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.uri import WebSocketURI, parse_uri

from agents.link import CLOSE_TIMEOUT_S, Link, Silent
from agents.wire import codec
from agents.wire.limits import MAX_MESSAGE_BYTES

# One process stands for thousands of machines: it opens so many connections at a time, and has more
# patience with each than a machine that has just the one.
OPENING: Final = 200
OPEN_TIMEOUT_S: Final = 20.0
# The console is heard every few seconds, as it answers each status: only after this is it asked.
ASK_AFTER_S: Final = 10.0
ANSWER_S: Final = 8.0
# What waits to be taken off a connection; beyond it the latest values replace one another.
ROOM_BYTES: Final = 64 << 10


class Line(Link):
    """As a `Link`; but what waits is sent when `pump` is called."""

    _wire: Wire | None = None

    def __init__(self, *parts: Any, opening: asyncio.Semaphore) -> None:
        super().__init__(*parts)
        self._opening = opening

    @property
    def is_up(self) -> bool:
        return self._wire is not None

    def cut(self, duration_s: float) -> None:
        self._cut_until = time.monotonic() + duration_s
        if self._wire is not None:
            self._wire.abort()

    def pump(self, now: float) -> None:
        wire, outbox = self._wire, self._station.outbox
        if wire is None:
            return
        wire.feel(now)
        while wire.has_room and (message := outbox.take(now)) is not None:
            wire.send(codec.encode(self._worded(message)))

    async def _connect(self) -> None:
        wire = Wire(parse_uri(self._url), self._token)
        try:
            async with self._opening:
                await self._open(wire)
            self._wire = wire
            wire.listen(self._obey)
            self.pump(time.monotonic())
            await wire.closed
        except asyncio.CancelledError:
            wire.close()
            raise
        finally:
            self._wire = None
            wire.abort()

    async def _open(self, wire: Wire) -> None:
        loop, uri = asyncio.get_running_loop(), wire.uri
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await loop.create_connection(lambda: wire, uri.host, uri.port, ssl=self._tls)
                await wire.opened
        except TimeoutError as error:
            raise Silent(f"it opened no connection within {OPEN_TIMEOUT_S:g} s") from error
        wire.send(codec.encode(self._station.hello()))
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                welcome = codec.decode_from_console(await wire.first)
        except TimeoutError as error:
            raise Silent(f"it did not answer the hello within {OPEN_TIMEOUT_S:g} s") from error
        self._greet(welcome)


class Wire(asyncio.Protocol):
    """One socket. `opened`, `first` (the first message) and `closed` (raises why) are awaited."""

    def __init__(self, uri: WebSocketURI, token: str) -> None:
        loop = asyncio.get_running_loop()
        self.uri, self._token = uri, token
        self._speech = ClientProtocol(uri, max_size=MAX_MESSAGE_BYTES)
        self._transport: asyncio.Transport | None = None
        self.opened: asyncio.Future[None] = loop.create_future()
        self.first: asyncio.Future[bytes] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()
        self._hear: Callable[[bytes], None] = self._hear_first
        self._waiting: list[bytes] = []
        self._parts: list[bytes] = []
        self._heard_at, self._asked_at = time.monotonic(), float("-inf")

    # --- what is said -------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        if self._transport is None or self._speech.state is not State.OPEN:
            return False
        return self._transport.get_write_buffer_size() < ROOM_BYTES

    def send(self, data: bytes) -> None:
        self._speech.send_binary(data)
        self._flush()

    def feel(self, now: float) -> None:
        """Asks a console that was long silent for a sign, and gives up on it without one."""
        if now - self._heard_at < ASK_AFTER_S or self._speech.state is not State.OPEN:
            return
        if self._asked_at <= self._heard_at:
            self._asked_at = now
            self._speech.send_ping(b"")
            self._flush()
        elif now - self._asked_at > ANSWER_S:
            self._end(Silent(f"it did not answer a ping within {ANSWER_S:g} s"))
            self.abort()

    def close(self) -> None:
        if self._speech.state is State.OPEN:
            self._speech.send_close(CloseCode.GOING_AWAY, "the agent ends")
            self._flush()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _flush(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        for data in self._speech.data_to_send():
            if data:
                self._transport.write(data)
            elif self._transport.can_write_eof():
                self._transport.write_eof()

    # --- what is heard ------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        request = self._speech.connect()
        request.headers["Authorization"] = f"Bearer {self._token}"
        self._speech.send_request(request)
        self._flush()

    def data_received(self, data: bytes) -> None:
        self._heard_at = time.monotonic()
        self._speech.receive_data(data)
        self._flush()
        for event in self._speech.events_received():
            if isinstance(event, Response):
                self._answered()
            elif isinstance(event, Frame):
                self._take(event)
        if self._speech.close_expected():
            asyncio.get_running_loop().call_later(CLOSE_TIMEOUT_S, self.abort)

    def eof_received(self) -> None:
        self._speech.receive_eof()
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        self._speech.receive_eof()
        why = error
        if self._speech.handshake_exc is not None:
            why = self._speech.handshake_exc
        elif self._speech.state is State.CLOSED and self.opened.done():
            why = self._speech.close_exc
        self._end(why or ConnectionResetError("the connection broke off"))

    def _answered(self) -> None:
        """Of a refusal the reason comes when the connection is over."""
        if self._speech.state is State.OPEN and not self.opened.done():
            self.opened.set_result(None)

    def _take(self, frame: Frame) -> None:
        if frame.opcode in (Opcode.BINARY, Opcode.TEXT, Opcode.CONT):
            self._parts.append(bytes(frame.data))
            if frame.fin:
                data, self._parts = b"".join(self._parts), []
                self._hear(data)

    def listen(self, hear: Callable[[bytes], None]) -> None:
        """From the second message on."""
        self._hear = hear
        for data in self._waiting:
            hear(data)
        self._waiting.clear()

    def _hear_first(self, data: bytes) -> None:
        """What follows the first message at once waits until somebody listens."""
        if not self.first.done():
            self.first.set_result(data)
        else:
            self._waiting.append(data)

    def _end(self, why: Exception) -> None:
        for future in (self.opened, self.first, self.closed):
            if not future.done():
                future.set_exception(why)
                future.exception()  # whoever awaits it hears of it; nobody has to
