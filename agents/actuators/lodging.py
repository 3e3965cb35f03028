"""What the host gives each job of a node, and why it must give it back: groups and memory.

Looked at once a second. Without groups a job is bounded by nothing, and only the host's own
shortage is seen.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agents.actuators import cgroup, family, memory, pressure
from agents.actuators.cgroup import Group, Groups
from agents.actuators.family import PROC
from agents.actuators.pressure import HostMemory, Pressure

LOOK_S: Final = 1.0
# Where no job runs, the host's memory matters to the next one alone.
IDLE_LOOK_S: Final = 5.0


class Lodgings:
    """Of all jobs of this node, by placement."""

    def __init__(
        self,
        groups: Groups | None,
        memory_bytes: int,
        proc: Path = PROC,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`memory_bytes`: of each job, where there are `groups`."""
        self._new_groups, self._memory_bytes, self._proc = groups, memory_bytes, proc
        self._groups: dict[str, Group] = {}
        # What the kernel did to ended jobs for want of memory: kept, as their groups go.
        self._kills: dict[str, str] = {}
        # Of ended jobs, while the kernel still holds on to them.
        self._left: list[Group] = []
        self._pressure = Pressure()
        self._looked_at = float("-inf")
        self._clock = clock
        self._host: HostMemory | None = None
        self._host_at = float("-inf")

    def create(self, placement_id: str) -> Path | None:
        """The folder of its group, None where there are none. Raises OSError."""
        if self._new_groups is None:
            return None
        group = self._new_groups.create(placement_id, self._memory_bytes)
        self._groups[placement_id] = group
        return group.path

    def adopt(self, placement_id: str, path: str | None) -> None:
        """The group that it was started in, `path`; without one, that in which it was to be: an
        agent that dies amid a start has made it and not said so."""
        if path is not None:
            self._groups[placement_id] = Group(Path(path))
        elif self._new_groups is not None:
            self._groups[placement_id] = self._new_groups.group(placement_id)

    def is_due(self, now: float) -> bool:
        return not 0.0 <= now - self._looked_at < LOOK_S

    def look(self, roots: Mapping[str, int | None], now: float) -> None:
        """`roots`: the first process of each job that has not ended, where it is known."""
        self._looked_at = now
        read = {one: self._groups[one].read() for one in roots if one in self._groups}
        groups = {one: told for one, told in read.items() if told is not None}
        host = self._read_host()
        held = dict.fromkeys(roots, 0) | {one: told.used_bytes for one, told in groups.items()}
        if pressure.host_short(host):
            held |= self._resident({one: roots[one] for one in roots.keys() - groups.keys()})
        self._pressure = pressure.step(self._pressure, groups, held, host, now)

    def why_full(self) -> str:
        """Why the host has no room for another job, "" when it has; asked once a second."""
        self._left = [group for group in self._left if not group.remove()]
        if not 0.0 <= self._clock() - self._host_at < IDLE_LOOK_S:
            self._read_host()
        return pressure.host_short(self._host)

    def _read_host(self) -> HostMemory | None:
        self._host, self._host_at = memory.host_memory(self._proc), self._clock()
        return self._host

    def why_leave(self, placement_id: str) -> str:
        """Why the job must go for the sake of host memory, "" when it need not."""
        return self._pressure.must_go.get(placement_id, "")

    def cgroup(self, placement_id: str) -> str:
        """As the kernel names it, "" without one."""
        group = self._groups.get(placement_id)
        return "" if group is None else cgroup.named(group)

    def is_inhabited(self, placement_id: str) -> bool:
        """Whether a process is known to live in its group."""
        group = self._groups.get(placement_id)
        return group is not None and group.populated

    def kill(self, placement_id: str) -> None:
        if group := self._groups.get(placement_id):
            group.kill()

    def leave(self, placement_id: str) -> str:
        """The job has ended: its group goes, now or soon. What the kernel did to the job for want
        of memory, "" for nothing."""
        group = self._groups.pop(placement_id, None)
        if group is not None:
            told = group.read()
            self._kills[placement_id] = "" if told is None else pressure.oom(told)
            if not group.remove():
                self._left.append(group)
        return self._kills.get(placement_id, "")

    def forget(self, placement_id: str) -> None:
        self.leave(placement_id)
        self._kills.pop(placement_id, None)

    def _resident(self, roots: Mapping[str, int | None]) -> dict[str, int]:
        """A look at every process of these jobs; only when it matters who holds most."""
        children = family.children(self._proc)
        held = {}
        for placement_id, root in roots.items():
            if root is not None:
                everybody = family.descendants(root, children) | {root}
                pids = (memory.resident_bytes(pid, self._proc) for pid in everybody)
                held[placement_id] = sum(pids)
        return held
