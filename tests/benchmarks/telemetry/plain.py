"""The straightforward design, to be compared with: stock Channels consumers, JSON, each node's
message sent on to a group that all browsers are in.

    uvicorn tests.benchmarks.telemetry.plain:application      # the console
    python -m tests.benchmarks.telemetry.plain PORT NODES     # its agents

It is spared what ours also does: hellos, statuses, leases, a database, Redis (its channel layer is
the one in memory), validation, a grid, summaries.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from typing import Any

import django

django.setup()

from channels.generic.websocket import AsyncWebsocketConsumer  # noqa: E402
from channels.routing import ProtocolTypeRouter, URLRouter  # noqa: E402
from django.urls import path  # noqa: E402
from websockets.asyncio.client import connect  # noqa: E402

from agents.wire.names import SIGNALS  # noqa: E402
from agents.wire.packed import EXTRAS  # noqa: E402
from tests.benchmarks.telemetry.sender import TYPICAL  # noqa: E402

GROUP = "map"
ARRIVE_S = 2.0


class Agents(AsyncWebsocketConsumer):  # type: ignore[misc]
    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        message = json.loads(text_data or "")
        latest[message["node"]] = message
        await self.channel_layer.group_send(GROUP, {"type": "node.changed", "message": message})


class Browsers(AsyncWebsocketConsumer):  # type: ignore[misc]
    async def connect(self) -> None:
        await self.channel_layer.group_add(GROUP, self.channel_name)
        await self.accept()

    async def disconnect(self, code: int) -> None:
        await self.channel_layer.group_discard(GROUP, self.channel_name)

    async def node_changed(self, event: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(event["message"]))


latest: dict[str, Any] = {}
application = ProtocolTypeRouter(
    {
        "websocket": URLRouter(
            [path("agents/", Agents.as_asgi()), path("browsers/", Browsers.as_asgi())]
        )
    }
)


async def speak(port: int, nodes: int, gpus: int) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(nodes):
            group.create_task(_speak(port, f"node-{number:04d}", gpus))


async def _speak(port: int, node: str, gpus: int) -> None:
    phase = random.random()
    await asyncio.sleep(phase * ARRIVE_S)
    async with connect(
        f"ws://127.0.0.1:{port}/agents/", compression=None, ping_interval=3, proxy=None
    ) as stream:
        while True:
            await asyncio.sleep(1 - (time.time() - phase) % 1)
            await stream.send(json.dumps(_message(node, gpus)))


def _message(node: str, gpus: int) -> dict[str, Any]:
    return {
        "node": node,
        "sent_at": time.time(),
        "gpus": [
            {
                "index": index,
                "state": 1,
                **_signals(),
                **{f"{name}_worst": value for name, value in _signals().items()},
                **dict.fromkeys(EXTRAS, 20.0),
            }
            for index in range(gpus)
        ],
    }


def _signals() -> dict[str, float]:
    return {
        signal.value: value * random.uniform(0.9, 1.1)
        for signal, value in zip(SIGNALS, TYPICAL, strict=True)
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("port", type=int)
    parser.add_argument("nodes", type=int)
    parser.add_argument("--gpus", type=int, default=8)
    given = parser.parse_args()
    asyncio.run(speak(given.port, given.nodes, given.gpus))
