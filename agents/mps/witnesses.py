"""When each fatal code of our own processes was first seen.

xCUDA writes the first fatal code that a process gets into its slot of the control block, without
a time; the agent reads the slots on each sample.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from agents.control_block import Process
from agents.mps.timeline import Witness


class Said(Protocol):
    """As `actuators.statement.Statement`."""

    @property
    def processes(self) -> tuple[Process, ...]: ...


Key = tuple[str, int, int]


class Witnesses:
    """Of all jobs whose control block is open."""

    def __init__(self) -> None:
        self._pids: dict[Key, int] = {}
        self._seen: dict[Key, tuple[int, Witness]] = {}

    def note(self, told: Mapping[str, tuple[int, Said]], wall: float) -> None:
        """`told`: the GPU of each placement, and what its processes say; `wall` in unix
        seconds."""
        there: set[Key] = set()
        for placement_id, (index, said) in told.items():
            for one in said.processes:
                key = (placement_id, one.slot, one.pid)
                there.add(key)
                self._note(key, index, one, wall)
        self._pids = {key: pid for key, pid in self._pids.items() if key in there}
        self._seen = {key: one for key, one in self._seen.items() if key in there}

    def of_gpu(self, index: int) -> tuple[Witness, ...]:
        return tuple(witness for at, witness in self._seen.values() if at == index)

    def _note(self, key: Key, index: int, process: Process, wall: float) -> None:
        """Its own number of a process that is gone already is all there is."""
        if process.host_pid is not None:
            self._pids[key] = process.host_pid
        if process.fault is not None and key not in self._seen:
            pid = self._pids.get(key, process.pid)
            self._seen[key] = index, Witness(pid, process.fault, wall, key[0])
