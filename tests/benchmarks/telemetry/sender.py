"""Agents that only speak: so many connections of one process, each with hello, telemetry once a
second, a status every five. For what the fake fleet is too much for: the comparison, small runs."""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from agents.contention.cluster import build_cluster
from agents.wire import codec, credentials, packed
from agents.wire.messages import (
    Envelope,
    GpuInventory,
    GpuStatus,
    Hello,
    PackedTelemetry,
    Status,
    Welcome,
)
from agents.wire.names import GPU_STATES, SIGNALS, GpuState, RuntimeKind

GIB = 1 << 30
HEALTHY = GPU_STATES.index(GpuState.HEALTHY)
STATUS_EVERY = 5
HEADROOM = packed.FIELDS.index("headroom_percent")
TYPICAL = (80.0, 50.0, 40.0, 30.0, 1410.0, 40.0 * GIB, 1e9, 64.0, 300.0, 0.0, 30.0, 200.0)


class Speaker:
    def __init__(self, key: credentials.Credentials, gpus: list[GpuInventory], url: str) -> None:
        self._key, self._gpus, self._url = key, gpus, url
        self._generation, self._number, self._phase = 0, 0, random.random()
        self._socket: ClientConnection | None = None
        self._rows = np.full((len(gpus), packed.WIDTH), np.nan)
        self._rows[:, 0], self._rows[:, 1] = np.arange(len(gpus)), HEALTHY
        self._rows[:, 2:13] = 20.0
        self._rows[:, 6] = 1

    def cut(self) -> None:
        """As a broken cable does."""
        if self._socket is not None:
            self._socket.transport.abort()

    async def run(self) -> None:
        while True:
            with suppress(OSError, WebSocketException):  # it comes again, as an agent does
                await self._converse()
            await asyncio.sleep(random.uniform(0.1, 1.0))

    async def _converse(self) -> None:
        headers = {"Authorization": f"Bearer {self._key.token}"}
        async with connect(
            self._url, additional_headers=headers, compression=None, ping_interval=3, proxy=None
        ) as socket:
            hello = Hello(
                *(self._key.node, (1, 2), "1.0", "boot", self._generation, "n"),
                *(RuntimeKind.SIMULATED, tuple(self._gpus)),
            )
            await socket.send(codec.encode(hello))
            welcome = codec.decode_from_console(await socket.recv(decode=False))
            assert isinstance(welcome, Welcome)
            self._socket = socket
            speaking = asyncio.create_task(self._speak(socket))
            try:
                while True:
                    self._obey(await socket.recv(decode=False))
            finally:
                speaking.cancel()

    def _obey(self, data: bytes) -> None:
        message = codec.decode_from_console(data)
        if isinstance(message, Envelope):
            state = codec.unseal(message, bytes.fromhex(self._key.key_hex))
            self._generation = state.generation

    async def _speak(self, socket: ClientConnection) -> None:
        while True:
            await asyncio.sleep(1 - (time.time() - self._phase) % 1)
            self._number += 1
            await socket.send(codec.encode(self._telemetry()))
            if self._number % STATUS_EVERY == 0:
                await socket.send(codec.encode(self._status()))

    def _telemetry(self) -> PackedTelemetry:
        noise = np.random.random((len(self._gpus), len(SIGNALS))) * 0.2 + 0.9
        self._rows[:, HEADROOM] = self._headroom()
        self._rows[:, 13:25] = self._rows[:, 25:37] = np.array(TYPICAL) * noise
        return PackedTelemetry(
            self._number, time.time(), len(packed.FIELDS), len(SIGNALS), self._rows.tobytes()
        )

    def _headroom(self) -> Any:
        """Percent, of each GPU."""
        return np.random.random(len(self._gpus)) * 60

    def _status(self) -> Status:
        gpus = tuple(
            GpuStatus(gpu.index, GpuState.HEALTHY, 1.0, "all signals below") for gpu in self._gpus
        )
        return Status(f"n{self._number}", self._generation, {}, gpus, ())


async def speak(path: Path, url: str, nodes: int, gpus: int, seed: int) -> None:
    inventory = {
        node.name: [
            GpuInventory(index, gpu.uuid, gpu.model, 80 * GIB, power_limit_w=400.0)
            for index, gpu in enumerate(node.gpus)
        ]
        for node in build_cluster(nodes, gpus, seed).nodes
    }
    keys = [key for key in credentials.decode(path.read_bytes()) if key.node in inventory]
    speakers = [Speaker(key, inventory[key.node], url) for key in keys]

    def cut_all() -> None:
        for speaker in speakers:
            speaker.cut()

    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, cut_all)
    async with asyncio.TaskGroup() as group:
        for speaker in speakers:
            group.create_task(speaker.run())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("credentials", type=Path)
    parser.add_argument("url")
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(speak(given.credentials, given.url, given.nodes, given.gpus, given.seed))
