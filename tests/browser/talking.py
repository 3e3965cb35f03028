"""An agent that a test moves by hand: it says hello, and twice a second what it is told to."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from websockets.sync.client import connect

from agents.wire import codec
from agents.wire.messages import GpuInventory, GpuSample, Hello, Telemetry
from agents.wire.names import RuntimeKind
from console.inventory.models import Node

PERIOD_S = 0.5


@dataclass
class TalkingAgent:
    """`samples` is what it sends from now on; an empty tuple is silence."""

    url: str
    node: Node
    token: str
    samples: tuple[GpuSample, ...] = ()
    _over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> TalkingAgent:
        self._thread = threading.Thread(target=self._talk, name=f"agent of {self.node}")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(10)

    def _talk(self) -> None:
        address = f"{self.url.replace('http', 'ws', 1)}/ws/agent/"
        headers = {"Authorization": f"Bearer {self.token}"}
        with connect(
            address, additional_headers=headers, compression=None, max_queue=None
        ) as socket:  # what is told to it, it never reads: a full queue would hold up its end
            socket.send(codec.encode(self._hello()))
            number = 0
            while not self._over.wait(PERIOD_S):
                number += 1
                if self.samples:
                    socket.send(codec.encode(Telemetry(number, time.time(), self.samples)))

    def _hello(self) -> Hello:
        gpus = tuple(_claim(gpu) for gpu in self.gpus)
        return Hello(
            self.node.name, (1, 1), "0.1.0", "boot-1", 0, "nonce", RuntimeKind.SIMULATED, gpus
        )

    def __post_init__(self) -> None:
        self.gpus = list(self.node.gpus.order_by("index"))


def _claim(gpu: Any) -> GpuInventory:
    return GpuInventory(
        gpu.index, gpu.uuid, gpu.model, gpu.memory_bytes, power_limit_w=gpu.power_limit_w
    )
