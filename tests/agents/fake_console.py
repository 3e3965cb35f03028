"""A console of a few lines for the agents' tests: a real WebSocket, no database."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import msgspec
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from agents.wire import codec
from agents.wire.messages import (
    Backfill,
    BackfillAck,
    DesiredState,
    Event,
    EventAck,
    EventBatch,
    FromConsole,
    Hello,
    Signed,
    Status,
    Telemetry,
    Unchanged,
    Welcome,
)
from tests.agents.cast import KEY

TOKEN = "let me in"


class FakeConsole:
    """Remembers what agents said. `acknowledges`, `welcomes` and `answers` can be turned off."""

    def __init__(self, port: int = 0, host: str = "127.0.0.1") -> None:
        self.port, self._host = port, host
        self.tls: ssl.SSLContext | None = None
        self.acknowledges = self.welcomes = self.answers = True
        self.protocol = 1
        self.acked_seq = 0
        # Of what agents recorded: wanted from there on, and what came of it.
        self.history_after: float | None = None
        self.missed: list[Backfill] = []
        self.hellos: list[Hello] = []
        self.events: list[Event] = []
        self.statuses: list[Status] = []
        self.telemetry: list[Telemetry] = []
        self.garbled: list[str] = []
        self.handshakes = 0
        self.key = KEY
        self._desired: DesiredState | None = None
        self._nonce = ""
        self._sockets: set[ServerConnection] = set()

    async def __aenter__(self) -> FakeConsole:
        await self.come()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.go()

    async def come(self) -> None:
        """Listens, on the same port as before when it was gone."""
        self._server = await serve(
            self._serve,
            self._host,
            self.port,
            process_request=self._check,
            compression=None,
            ssl=self.tls,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def go(self) -> None:
        """As a console that is killed: whoever tries to connect is refused."""
        await self.drop()
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"{'wss' if self.tls else 'ws'}://{self._host}:{self.port}/ws/agent/"

    @property
    def status(self) -> Status:
        return self.statuses[-1]

    async def desire(self, state: DesiredState) -> None:
        """From now on, of the last node that said hello."""
        self._desired = state
        await self.send_order(state)

    async def send_order(self, message: Signed) -> None:
        await self.send(codec.seal(msgspec.structs.replace(message, nonce=self._nonce), self.key))

    async def send(self, message: FromConsole | bytes) -> None:
        data = message if isinstance(message, bytes) else codec.encode(message)
        for socket in tuple(self._sockets):
            with contextlib.suppress(ConnectionClosed):
                await socket.send(data)

    async def drop(self) -> None:
        """As a console that is killed: no closing handshake."""
        for socket in tuple(self._sockets):
            socket.transport.abort()

    async def hand_over(self) -> None:
        """As a console that ends and has a successor."""
        for socket in tuple(self._sockets):
            await socket.close(4410, "this console process ends: connect again")

    async def _check(self, socket: ServerConnection, request: Request) -> Response | None:
        self.handshakes += 1
        if request.headers.get("Authorization") == f"Bearer {TOKEN}":
            return None
        return socket.respond(HTTPStatus.FORBIDDEN, "who are you?")

    async def _serve(self, socket: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            while data := await socket.recv(decode=False):
                if self.answers:
                    await self._hear(socket, data)
        self._sockets.discard(socket)

    async def _hear(self, socket: ServerConnection, data: bytes) -> None:
        try:
            message = codec.decode_from_agent(data)
        except codec.WireError as error:
            self.garbled.append(str(error))
            if socket not in self._sockets:
                await socket.close(4400, str(error)[:100])
            return
        await self._take(socket, message)

    async def _take(self, socket: ServerConnection, message: Any) -> None:
        if isinstance(message, Hello):
            await self._greet(socket, message)
        elif isinstance(message, EventBatch):
            await self._store(message)
        elif isinstance(message, Status):
            await self._renew(message)
        elif isinstance(message, Telemetry):
            self.telemetry.append(message)
        elif isinstance(message, Backfill):
            self.missed.append(message)
            await self.send(BackfillAck(message.blocks[-1].times[-1]))

    async def _greet(self, socket: ServerConnection, hello: Hello) -> None:
        self.hellos.append(hello)
        self._nonce = hello.nonce
        if self.welcomes:
            self._sockets.add(socket)
            welcome = Welcome(self.protocol, time.time(), self.acked_seq, self.history_after)
            await self.send(welcome)
        if self._desired is not None:
            await self.send_order(self._desired)

    async def _store(self, batch: EventBatch) -> None:
        self.events += batch.events
        if self.acknowledges:
            self.acked_seq = max(self.acked_seq, batch.events[-1].seq)
            await self.send(EventAck(self.acked_seq))

    async def _renew(self, status: Status) -> None:
        self.statuses.append(status)
        self._nonce = status.nonce
        if self._desired is not None and status.observed_generation == self._desired.generation:
            await self.send_order(Unchanged(self._desired.generation, "", self._desired.lease_s))


async def until(fact: Callable[[], Any], timeout_s: float = 25.0) -> Any:
    """The fact once it is true. Fails when it does not become so."""
    deadline = time.monotonic() + timeout_s
    while not (value := fact()):
        assert time.monotonic() < deadline, "it never came true"
        await asyncio.sleep(0.02)
    return value
