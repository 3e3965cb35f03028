"""The short way through a socket against the ordinary one: whatever a client sends, in whatever
pieces, both hand on the same messages and answer the same bytes."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from uvicorn.config import Config
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState
from websockets.frames import Frame, Opcode

from console.telemetry.sockets import Socket

REQUEST = (
    b"GET /ws/agent/ HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written, self.closed = b"", False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_extra_info(self, name: str) -> None: ...


async def application(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await asyncio.Event().wait()


async def _told(kind: type[WebSocketsSansIOProtocol], pieces: list[bytes]) -> tuple[Any, ...]:
    config = Config(
        application, ws="websockets-sansio", ws_max_size=200, ws_per_message_deflate=False,
        log_config=None, lifespan="off",
    )  # fmt: skip
    config.load()
    socket = kind(config, ServerState(), {}, asyncio.get_running_loop())
    wire = Wire()
    socket.connection_made(wire)
    socket.data_received(REQUEST)
    while not socket.handshake_complete:
        await asyncio.sleep(0)
    for piece in pieces:
        if not wire.closed:
            socket.data_received(piece)
    messages = []
    while not socket.queue.empty():
        messages.append(socket.queue.get_nowait())
    for task in socket.tasks:
        task.cancel()
    socket.stop_keepalive()
    answered = wire.written.split(b"\r\n\r\n", 1)[1]
    return messages, answered, wire.closed


def told(kind: type[WebSocketsSansIOProtocol], pieces: list[bytes]) -> tuple[Any, ...]:
    return asyncio.run(_told(kind, pieces))


def frame(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


payloads = st.one_of(
    st.binary(max_size=8),
    st.integers(120, 240).map(lambda size: bytes(range(size))),  # either side of all limits
)
frames = st.one_of(
    st.builds(frame, st.just(Opcode.BINARY), payloads),
    st.builds(frame, st.just(Opcode.BINARY), payloads),
    st.builds(frame, st.just(Opcode.PING), st.binary(max_size=125)),
    st.builds(frame, st.just(Opcode.PONG), st.binary(max_size=5)),
    st.builds(frame, st.just(Opcode.TEXT), st.just(b"text")),
    st.builds(frame, st.sampled_from([Opcode.BINARY, Opcode.CONT]), payloads, st.booleans()),
    st.just(frame(Opcode.CLOSE, b"\x03\xe8")),
    st.just(Frame(Opcode.BINARY, b"without a mask").serialize(mask=False)),
    st.binary(max_size=6),
)


@given(st.lists(frames, max_size=6), st.lists(st.integers(0, 900), max_size=6))
def test_the_short_way_does_what_the_ordinary_one_does(sent, cuts):
    data = b"".join(sent)
    at = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [data[start:end] for start, end in pairwise(at)]
    assert told(Socket, pieces) == told(WebSocketsSansIOProtocol, pieces)


def test_whole_messages_and_pings_do_not_meet_the_general_parser(monkeypatch):
    async def run() -> None:
        def parsed(self: Any, data: bytes) -> None:
            raise AssertionError("parsed")

        messages, answered, _ = await _told(
            Socket, [frame(Opcode.BINARY, b"a" * 150) + frame(Opcode.PING, b"p")]
        )
        assert [message["bytes"] for message in messages] == [b"a" * 150]
        assert answered == b"\x8a\x01p"

    original = WebSocketsSansIOProtocol.data_received

    def only_the_request(self: Any, data: bytes) -> None:
        assert data == REQUEST
        original(self, data)

    monkeypatch.setattr(WebSocketsSansIOProtocol, "data_received", only_the_request)
    asyncio.run(run())


@pytest.mark.parametrize(
    "first",
    [REQUEST[:-20], REQUEST + frame(Opcode.BINARY, b"x")[:3]],
    ids=["half a request", "half a frame"],
)
def test_whoever_begins_strangely_goes_the_ordinary_way(first):
    async def run() -> object:
        config = Config(application, ws_per_message_deflate=False, log_config=None, lifespan="off")
        config.load()
        socket = Socket(config, ServerState(), {}, asyncio.get_running_loop())
        socket.connection_made(Wire())
        socket.data_received(first)
        for task in socket.tasks:
            task.cancel()
        return socket._rest

    assert asyncio.run(run()) is None
