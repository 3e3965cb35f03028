"""The processes on each GPU, from the driver's lists, each with its owner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from agents.collectors import procfs
from agents.collectors.attribution import (
    Client,
    GpuProcess,
    Lookup,
    OfflineJob,
    ProcessIdentity,
    Workloads,
    attributed,
    nobody,
)
from agents.collectors.base import Finding, Findings
from agents.collectors.nvml import Nvml, Trouble, clients

PERIOD_S: Final = 1.0
REST_PERIOD_S: Final = 2.0

Jobs = Callable[[], Sequence[OfflineJob]]


class MpsClients(Protocol):
    """Who the MPS control daemons know. The lists of NVML do not name a client that has a
    context but no memory yet; the daemon does."""

    def client_pids(self) -> Mapping[str, frozenset[int]]:
        """As last heard, by the UUID of the GPU; one of which nothing is known is left out.
        Never waits for a daemon and never raises."""


class ProcessSource:
    """It names processes by the pids that this agent sees, so the agent must run in the host's pid
    namespace."""

    name = "processes"
    max_age_s = 4.0
    prompt = False
    is_idle = False

    def __init__(
        self,
        nvml: Nvml,
        jobs: Jobs,
        mps: MpsClients | None = None,
        lookup: Lookup = procfs.identity,
        workloads: Workloads = nobody,
    ) -> None:
        self._nvml, self._jobs, self._mps = nvml, jobs, mps
        self._lookup, self._workloads = lookup, workloads
        self._before: dict[str, _Seen] = {}

    @property
    def period_s(self) -> float:
        """Seldom while no job of ours runs: nobody is to be kept from anybody then."""
        return PERIOD_S if self._jobs() else REST_PERIOD_S

    def look(self, now: float) -> Findings:
        jobs = tuple(self._jobs())
        daemons: Mapping[str, frozenset[int]] = {}
        if self._mps is not None:
            daemons = self._mps.client_pids()
        seen: dict[int, ProcessIdentity | None] = {}

        def lookup(pid: int) -> ProcessIdentity | None:
            if pid not in seen:
                seen[pid] = self._lookup(pid)
            return seen[pid]

        found: dict[str, Finding] = {}
        for device in self._nvml.devices():
            uuid = device.card.uuid
            try:
                listed = clients(self._nvml, device)
            except Trouble as trouble:
                found[uuid] = Finding(trouble=str(trouble))
                continue
            if listed is not None:
                here = with_mps(listed, daemons.get(uuid, frozenset()))
                found[uuid] = Finding(processes=self._attributed(uuid, here, jobs, lookup))
        return found

    def close(self) -> None: ...

    def _attributed(
        self, uuid: str, listed: Sequence[Client], jobs: Sequence[OfflineJob], lookup: Lookup
    ) -> tuple[GpuProcess, ...]:
        """The same list as before where nothing has changed: what others made of it still holds."""
        before = self._before.get(uuid, _NONE)
        processes = attributed(listed, jobs, lookup, before.by_pid, self._workloads)
        if before is not _NONE and processes == before.all:
            return before.all
        by_pid = {process.pid: process for process in processes}
        self._before[uuid] = _Seen(processes, by_pid)
        return processes


@dataclass(frozen=True, slots=True)
class _Seen:
    """The processes of one card at the last look."""

    all: tuple[GpuProcess, ...]
    by_pid: Mapping[int, GpuProcess]


_NONE: Final = _Seen((), {})


def with_mps(listed: Sequence[Client], daemon: frozenset[int]) -> tuple[Client, ...]:
    """The driver's list and the daemon's, as one."""
    known = {client.pid for client in listed}
    marked = (one if one.mps or one.pid not in daemon else replace(one, mps=True) for one in listed)
    return (*marked, *(Client(pid, None, mps=True) for pid in sorted(daemon - known)))
