"""Whose process is it: ours (offline) or somebody's (online). Pure.

A pid alone proves nothing, as it is used again: a process is known by pid and start time. Ours is
one that runs in the cgroup of a job of ours, holds a slot of its control block, belongs to its
session or descends from its first process. Everything else counts as online, and one about which
nothing can be read is `unattributed` besides. NVIDIA's own MPS server is neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agents.collectors.cgroups import Container

MPS_SERVER: Final = "nvidia-cuda-mps"
# A chain of parents longer than this is a loop of reused pids.
MOST_ANCESTORS: Final = 64


class Side(StrEnum):
    """Who a process works for."""

    ONLINE = "online"
    OFFLINE = "offline"
    UNATTRIBUTED = "unattributed"
    MPS_SERVER = "mps_server"


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """One process as the kernel tells it; `started_ticks` is since boot, in clock ticks."""

    pid: int
    started_ticks: int
    parent_pid: int
    session: int
    name: str
    cgroup: str
    container: Container | None = None


@dataclass(frozen=True, slots=True)
class OfflineJob:
    """A job of ours on this node: its first process, known by pid and start time, its cgroup, and
    live processes that its control block names. None or empty where that is not known."""

    placement_id: str
    gpu_index: int
    sm_share_percent: float
    pid: int | None = None
    started_ticks: int | None = None
    cgroup: str = ""
    pids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Client:
    """A process as the driver lists it for one GPU. `mps`: it is a client of an MPS server."""

    pid: int
    memory_bytes: int | None
    mps: bool = False
    graphics: bool = False


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on one GPU, and whose it is. `workload` is the online pod that it belongs to, in
    words, "" where that is not known."""

    pid: int
    side: Side
    memory_bytes: int | None
    mps: bool = False
    placement_id: str | None = None
    started_ticks: int | None = None
    name: str = ""
    cgroup: str = ""
    workload: str = ""

    @property
    def known_as(self) -> str:
        """What people call it, "" when nobody can tell."""
        return self.workload or self.name


Lookup = Callable[[int], ProcessIdentity | None]
# The online pod in words, "" for a container that is none, or for no container.
Workloads = Callable[[Container | None], str]


def nobody(_: Container | None) -> str:
    """Of a node on which nobody can tell."""
    return ""


def attributed(
    clients: Iterable[Client],
    jobs: Collection[OfflineJob],
    lookup: Lookup,
    before: Mapping[int, GpuProcess] | None = None,
    workloads: Workloads = nobody,
) -> tuple[GpuProcess, ...]:
    """Each client with its side. `workloads` names whoever runs in a container.

    `before` are those of the last look, by pid: a process that is gone from the kernel's table
    while the driver still lists it is whose it was.
    """
    return tuple(_attributed(client, jobs, lookup, before or {}, workloads) for client in clients)


def _attributed(
    client: Client,
    jobs: Collection[OfflineJob],
    lookup: Lookup,
    before: Mapping[int, GpuProcess],
    workloads: Workloads,
) -> GpuProcess:
    identity = lookup(client.pid)
    if identity is None:
        return _remembered(client, before.get(client.pid))
    job = owner(identity, jobs, lookup)
    side = Side.ONLINE if job is None else Side.OFFLINE
    if job is None and identity.name.startswith(MPS_SERVER):
        side = Side.MPS_SERVER
    return GpuProcess(
        client.pid,
        side,
        client.memory_bytes,
        client.mps,
        None if job is None else job.placement_id,
        identity.started_ticks,
        identity.name,
        identity.cgroup,
        workloads(identity.container) if side is Side.ONLINE else "",
    )


def _remembered(client: Client, last: GpuProcess | None) -> GpuProcess:
    if last is None:
        return GpuProcess(client.pid, Side.UNATTRIBUTED, client.memory_bytes, client.mps)
    return GpuProcess(
        client.pid,
        last.side,
        client.memory_bytes,
        client.mps,
        last.placement_id,
        last.started_ticks,
        last.name,
        last.cgroup,
        last.workload,
    )


def owner(
    identity: ProcessIdentity, jobs: Collection[OfflineJob], lookup: Lookup
) -> OfflineJob | None:
    """The job that the process belongs to, None when it is not ours."""
    if not jobs:
        return None
    line = frozenset((one.pid, one.started_ticks) for one in _line(identity, lookup))
    return next((job for job in jobs if _is_of(identity, job, line, lookup)), None)


def _is_of(
    identity: ProcessIdentity, job: OfflineJob, line: frozenset[tuple[int, int]], lookup: Lookup
) -> bool:
    """`line`: the process and its ancestors, each by pid and start time."""
    return (
        _in_cgroup(identity.cgroup, job.cgroup)
        or identity.pid in job.pids
        or (job.pid, job.started_ticks) in line
        or _in_session(identity, job, lookup)
    )


def _in_cgroup(cgroup: str, of_job: str) -> bool:
    return bool(of_job) and (cgroup == of_job or cgroup.startswith(of_job.rstrip("/") + "/"))


def _in_session(identity: ProcessIdentity, job: OfflineJob, lookup: Lookup) -> bool:
    """A session is numbered by its leader; a number used again means a leader that is not ours."""
    if job.pid is None or job.started_ticks is None or identity.session != job.pid:
        return False
    if identity.started_ticks < job.started_ticks:
        return False
    leader = lookup(job.pid)
    return leader is None or _is_first(leader, job)


def _is_first(identity: ProcessIdentity, job: OfflineJob) -> bool:
    return identity.pid == job.pid and identity.started_ticks == job.started_ticks


def _line(identity: ProcessIdentity, lookup: Lookup) -> Iterator[ProcessIdentity]:
    """The process and its ancestors. A parent is never younger than its child."""
    current: ProcessIdentity | None = identity
    for _ in range(MOST_ANCESTORS):
        if current is None:
            return
        yield current
        parent = lookup(current.parent_pid) if current.parent_pid > 1 else None
        current = parent if parent and parent.started_ticks <= current.started_ticks else None


def memory_of(processes: Iterable[GpuProcess]) -> int | None:
    """The sum, None as soon as one of them is not known."""
    total = 0
    for process in processes:
        if process.memory_bytes is None:
            return None
        total += process.memory_bytes
    return total


def is_online(process: GpuProcess) -> bool:
    """What is not ours counts as online, whether or not anything is known of it."""
    return process.side is Side.ONLINE or process.side is Side.UNATTRIBUTED
