"""Tabs that watch the map as a browser does, one that reads nothing, and what they see."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import time
import urllib.request
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from console.telemetry import frames
from console.telemetry.latest import Field, Look
from console.telemetry.watch import VALUES
from tests.benchmarks.telemetry.site import Site

# What each tab of a crowd fills its map with: the one after the other, and then all at once.
FILLS = (*((field.name,) for field in VALUES), tuple(field.name for field in VALUES))
HEADROOM = (Field.HEADROOM.name,)
STALE = (Look.STALE, Look.UNREACHABLE)


def watch(fields: Sequence[str]) -> str:
    """The whole map, GPU by GPU."""
    return json.dumps(
        {
            **{"op": "watch", "number": 1, "detail": "gpus", "fields": list(fields)},
            **{"gpus": None, "closer": []},
        }
    )


class Map:
    """What a tab knows, put together of frames; raises ValueError for one that does not fit."""

    def __init__(self) -> None:
        self.sequence = -1
        self.columns: dict[int, np.ndarray[Any, np.dtype[np.uint8]]] = {}

    def apply(self, frame: bytes) -> frames.Kind:
        _, _, number, _, sequence, base, _, _, rows, _, blocks = frames.HEADER.unpack_from(frame)
        kind = frames.Kind(number)
        if kind is frames.Kind.SNAPSHOT:
            self.columns.clear()
        elif not base <= self.sequence < sequence:
            raise ValueError(f"frame {sequence} fits on {base} and after, here is {self.sequence}")
        self.sequence, at = sequence, frames.HEADER.size
        for _ in range(blocks):
            at = self._block(frame, at, rows)
        return kind

    def _block(self, frame: bytes, at: int, rows: int) -> int:
        column, told, _, count, size = frames.BLOCK.unpack_from(frame, at)
        at += frames.BLOCK.size
        which = _rows(frames.Told(told), frame[at : at + size])
        values = np.frombuffer(frame, np.uint8, count, at + size)
        known = self.columns.setdefault(column, np.full(rows, 255, np.uint8))
        known[slice(None) if which is None else which[:count]] = values
        return at + size + count


def _rows(told: frames.Told, raw: bytes) -> Any:
    if told is frames.Told.ALL:
        return None
    if told is frames.Told.BITMAP:
        return np.flatnonzero(np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little"))
    gaps, value, shift = [], 0, 0
    for byte in raw:
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            gaps.append(value + 1)
            value = shift = 0
    return np.cumsum(gaps) - 1


class Tab:
    """Counts bytes; `on_frame` is called with the map after each frame and when it came."""

    def __init__(self, site: Site, fields: Sequence[str] = HEADROOM) -> None:
        self.site, self.bytes, self.frames, self.gaps = site, 0, 0, 0
        self._fields = fields
        self.map = Map()
        self.on_frame: Any = None

    async def run(self) -> None:
        while True:
            with suppress(OSError, WebSocketException):
                await self._watch()
            await asyncio.sleep(0.5)

    async def _watch(self) -> None:
        async with connect(
            self.site.browsers_url,
            additional_headers=self.site.browser_headers,
            compression=None,
            max_size=None,
            proxy=None,
        ) as stream:
            await stream.send(watch(self._fields))
            async for message in stream:
                self.bytes += len(message)
                if isinstance(message, bytes):
                    await self._show(stream, message)

    async def _show(self, stream: Any, frame: bytes) -> None:
        now = time.time()
        if self.on_frame is None:  # one of many: it only receives
            return
        try:
            self.map.apply(frame)
        except ValueError:
            self.gaps += 1
            await stream.send('{"op":"snapshot"}')
            return
        self.frames += 1
        self.on_frame(self.map, now)


class Observer:
    """Through one tab: how old a probe's sample is when it is seen, and which nodes went stale."""

    def __init__(self, tab: Tab) -> None:
        self.latencies: list[float] = []
        self.stale_nodes: set[int] = set()
        self.judges = False
        self._sent: defaultdict[int, dict[int, float]] = defaultdict(dict)
        self._shown: dict[int, int] = {}
        document = _layout(tab.site)
        self.row_of = {gpu_id: row for row, gpu_id in enumerate(document["gpus"]["id"])}
        self.node_of_row = np.array(document["gpus"]["node"])
        self._first_row = {
            name: int(np.flatnonzero(self.node_of_row == number)[0])
            for number, name in enumerate(document["nodes"]["name"])
            if name.startswith("probe-")
        }
        tab.on_frame = self._look

    def sent(self, node: str, code: int, at: float) -> None:
        if node in self._first_row:
            self._sent[self._first_row[node]][code] = at

    def _look(self, seen: Map, now: float) -> None:
        values, looks = seen.columns.get(Field.HEADROOM), seen.columns.get(Field.LOOK)
        if values is None or looks is None:
            return
        for row, sent in self._sent.items():
            code = int(values[row])
            if self._shown.get(row) != code and code in sent:
                self._shown[row] = code
                if self.judges:
                    self.latencies.append(now - sent[code])
        if self.judges:
            self.stale_nodes.update(self.node_of_row[np.isin(looks, STALE)].tolist())


def _layout(site: Site) -> dict[str, Any]:
    request = urllib.request.Request(
        f"http://127.0.0.1:{site.port}/live/layout.json", headers=site.browser_headers
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        document: dict[str, Any] = json.loads(answer.read())
    return document


def stalled(site: Site) -> socket.socket:
    """A tab that asks for the map and then reads nothing, until it is closed."""
    line = socket.create_connection(("127.0.0.1", site.port))
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    headers = {
        "Host": f"127.0.0.1:{site.port}",
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        **site.browser_headers,
    }
    words = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    line.sendall(f"GET /ws/live/ HTTP/1.1\r\n{words}\r\n".encode())
    assert b" 101 " in line.recv(64)
    text, mask = watch(HEADROOM).encode(), os.urandom(4)
    masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text))
    line.sendall(bytes((0x81, 0x80 | len(text))) + mask + masked)
    return line
