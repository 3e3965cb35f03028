"""Where the memory of each GPU's MPS side is kept: in the agent's state file, so that it is durable
together with what else happened in the same moment."""

from __future__ import annotations

import time
from collections.abc import Callable

from agents.mps import memory
from agents.mps.memory import Memory
from agents.state import StateFile


class Keep:
    """Of one node, in one boot."""

    def __init__(
        self,
        state: StateFile,
        node: str,
        boot_id: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state, self._node, self._boot_id, self._clock = state, node, boot_id, clock
        self._saved: dict[str, Memory] = {}

    def load(self, gpu_uuid: str, wall: float) -> Memory:
        """`wall` in unix seconds."""
        body = self._state.fact(self._node, _name(gpu_uuid))
        return memory.decode(body, self._boot_id, self._clock(), wall)

    def save(self, gpu_uuid: str, held: Memory) -> None:
        """Writes only what changed."""
        if self._saved.get(gpu_uuid) != held:
            body = memory.encode(held, self._boot_id)
            self._state.set_fact(self._node, _name(gpu_uuid), body)
            self._saved[gpu_uuid] = held


def _name(gpu_uuid: str) -> str:
    return f"mps {gpu_uuid}"
