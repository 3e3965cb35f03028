"""A network that misbehaves: a proxy on the loopback that knows WebSocket frames well enough to
lose, repeat, swap, cut short and hold up single messages, and whole connections with them."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

BINARY = 2
MASKED = 0x80


class Fault(StrEnum):
    """What may happen to one message."""

    DROP = "drop"
    DUPLICATE = "duplicate"
    REORDER = "reorder"  # the next of its kind overtakes it
    TRUNCATE = "truncate"  # a whole frame, with half of the message
    BREAK = "break"  # half of the frame, and the connection is gone


@dataclass(frozen=True)
class Frame:
    first_byte: int
    payload: bytes
    masked: bool

    @property
    def kind(self) -> str:
        """The tag of the message inside; "" for what is no message."""
        if self.first_byte & 0x0F != BINARY:
            return ""
        return str(msgspec.msgpack.decode(self.payload)[0])

    def encode(self) -> bytes:
        flag, size = MASKED if self.masked else 0, len(self.payload)
        if size < 126:
            head = struct.pack("!BB", self.first_byte, flag | size)
        elif size < 1 << 16:
            head = struct.pack("!BBH", self.first_byte, flag | 126, size)
        else:
            head = struct.pack("!BBQ", self.first_byte, flag | 127, size)
        # A mask of zeros leaves the payload as it is.
        return head + (bytes(4) if self.masked else b"") + self.payload

    def truncated(self) -> Frame:
        return Frame(self.first_byte, self.payload[: len(self.payload) // 2], self.masked)


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    first_byte, second = await reader.readexactly(2)
    size = second & 0x7F
    if size == 126:
        (size,) = struct.unpack("!H", await reader.readexactly(2))
    elif size == 127:
        (size,) = struct.unpack("!Q", await reader.readexactly(8))
    masked = bool(second & MASKED)
    mask = await reader.readexactly(4) if masked else b""
    return Frame(first_byte, _unmasked(await reader.readexactly(size), mask), masked)


def _unmasked(payload: bytes, mask: bytes) -> bytes:
    if not mask:
        return payload
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    mixed = int.from_bytes(payload, "big") ^ int.from_bytes(key, "big")
    return mixed.to_bytes(len(payload), "big")


class Broken(ConnectionError):
    """The connection ends in the middle of a frame."""


@dataclass
class Lane:
    """One direction of all connections. `suffered` lists the faults that came to pass."""

    bytes_per_s: float = 0.0  # 0: as fast as it goes
    faults: deque[tuple[str, Fault]] = field(default_factory=deque)
    suffered: list[tuple[str, Fault]] = field(default_factory=list)
    held: list[Frame] = field(default_factory=list)

    def harm(self, kind: str, fault: Fault) -> None:
        """The next message of this kind suffers."""
        self.faults.append((kind, fault))

    def passed(self, frame: Frame) -> Iterator[bytes]:
        """What comes out of the far end for it. Raises Broken."""
        fault = self._fault(frame.kind)
        if fault is None or fault is Fault.DUPLICATE:
            yield frame.encode()
            yield from self._overtaken(frame.kind)
        if fault is Fault.DUPLICATE:
            yield frame.encode()
        if fault is Fault.REORDER:
            self.held.append(frame)
        if fault is Fault.TRUNCATE:
            yield frame.truncated().encode()
        if fault is Fault.BREAK:
            raw = frame.encode()
            yield raw[: len(raw) // 2]
            raise Broken

    def _overtaken(self, kind: str) -> Iterator[bytes]:
        late = [frame for frame in self.held if frame.kind == kind]
        self.held = [frame for frame in self.held if frame.kind != kind]
        yield from (frame.encode() for frame in late)

    def _fault(self, kind: str) -> Fault | None:
        if not self.faults or self.faults[0][0] != kind:
            return None
        self.suffered.append(self.faults.popleft())
        return self.suffered[-1][1]


class Proxy:
    """Between agents and the console at `target_port` of `host`."""

    def __init__(self, target_port: int, host: str = "127.0.0.1") -> None:
        self.target_port, self._host = target_port, host
        self.up, self.down = Lane(), Lane()
        self.accepted = 0
        self._flows = asyncio.Event()
        self._flows.set()
        self._listens = True
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._carry, self._host, 0)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.cut()

    @property
    def url(self) -> str:
        return f"ws://{self._host}:{self.port}/ws/agent/"

    def cut(self) -> None:
        """Ends all connections as a reset does."""
        for writer in tuple(self._writers):
            writer.transport.abort()

    def unplug(self) -> None:
        """Likewise, and no new one is let in."""
        self._listens = False
        self.cut()

    def blackhole(self) -> None:
        """Connections stay open, and nothing comes through: neither an end nor an error."""
        self._flows.clear()

    def heal(self) -> None:
        """From now on it is a good network again."""
        self._listens = True
        self._flows.set()
        for lane in (self.up, self.down):
            lane.faults.clear()
            lane.bytes_per_s = 0.0

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.add(mine := asyncio.current_task())
        mine.add_done_callback(self._tasks.discard)
        self.accepted += 1
        self._writers.add(writer)
        far: asyncio.StreamWriter | None = None
        # What either side does to its connection is done to the other's.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            if self._listens:
                far_reader, far = await asyncio.open_connection(self._host, self.target_port)
                self._writers.add(far)
                await self._both_ways(reader, writer, far_reader, far)
        for end in (writer, far):
            if end is not None:
                self._writers.discard(end)
                end.transport.abort()
        self.up.held.clear()
        self.down.held.clear()

    async def _both_ways(self, reader, writer, far_reader, far) -> None:
        pumps = [
            asyncio.ensure_future(self._pump(reader, far, self.up)),
            asyncio.ensure_future(self._pump(far_reader, writer, self.down)),
        ]
        try:
            done, _ = await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        next(iter(done)).result()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lane: Lane
    ) -> None:
        writer.write(await reader.readuntil(b"\r\n\r\n"))
        while True:
            frame = await read_frame(reader)
            await self._flows.wait()
            for raw in lane.passed(frame):
                await self._send(writer, raw, lane)

    async def _send(self, writer: asyncio.StreamWriter, raw: bytes, lane: Lane) -> None:
        """A slow lane carries a little at a time, as slow lines do."""
        step = len(raw) if not lane.bytes_per_s else max(1, int(lane.bytes_per_s / 50))
        for start in range(0, len(raw), step):
            writer.write(raw[start : start + step])
            await writer.drain()
            if lane.bytes_per_s:
                await asyncio.sleep(step / lane.bytes_per_s)
