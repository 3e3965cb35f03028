"""Which process belongs to which of our jobs, by what the runtime knows of them.

A job may fault in its first second, before any list of the driver's has named its processes. Then
the server's log has a number, and this says whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from agents.collectors import procfs
from agents.collectors.attribution import Lookup, OfflineJob, owner
from agents.mps.timeline import Victim

# Of a job that has ended: a fault comes to light within so long.
KEPT_S: Final = 10.0


class Acquaintances:
    """Of all jobs of this node that run, or ran a moment ago."""

    def __init__(self, lookup: Lookup = procfs.identity) -> None:
        self._lookup = lookup
        self._jobs: dict[str, tuple[OfflineJob, float]] = {}
        self._pids: dict[int, tuple[OfflineJob, float]] = {}

    def note(self, jobs: Iterable[OfflineJob], now: float) -> None:
        """The jobs as they are now (monotonic seconds); due on each sample."""
        for job in jobs:
            self._jobs[job.placement_id] = job, now
            first = () if job.pid is None else (job.pid,)
            self._pids.update(dict.fromkeys((*first, *job.pids), (job, now)))
        self._jobs = {one: it for one, it in self._jobs.items() if now - it[1] <= KEPT_S}
        self._pids = {pid: it for pid, it in self._pids.items() if now - it[1] <= KEPT_S}

    def named(self, index: int, pids: Iterable[int]) -> tuple[Victim, ...]:
        """Those of `pids` that belong to a job on this GPU."""
        jobs = [job for job, _ in self._jobs.values() if job.gpu_index == index]
        found = ((pid, self._owner(pid, jobs)) for pid in (pids if jobs else ()))
        return tuple(
            Victim(pid, "offline", placement_id=job.placement_id)
            for pid, job in found
            if job is not None and job.gpu_index == index
        )

    def _owner(self, pid: int, jobs: list[OfflineJob]) -> OfflineJob | None:
        """Also of one that the runtime has not told of, as long as it has not been reaped."""
        if pid in self._pids:
            return self._pids[pid][0]
        identity = self._lookup(pid)
        return None if identity is None else owner(identity, jobs, self._lookup)
