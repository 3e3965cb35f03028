"""Which job is measured on which free GPU. Pure.

The most urgent job comes first and takes the largest card: nobody knows yet what it needs, and a
job that runs out of memory has measured nothing. Of jobs of one template one at a time is measured,
for the others to learn from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Free:
    """A GPU where nobody runs. `quota_bytes` is what a guest may hold of it; cores and host memory
    are its part of what its node has left, None: the node does not tell."""

    id: int
    model: str
    pool: str
    quota_bytes: int
    labels: frozenset[str] = frozenset()
    cpu_cores: float | None = None
    host_memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Wanting:
    """A job without a profile. Empty `pools`, `gpu_models` and `key`: any, and like no other."""

    id: UUID
    key: str
    team: str
    memory_bytes: int
    pools: frozenset[str] = frozenset()
    gpu_models: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    cpu_cores: float | None = None
    host_memory_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class Room:
    """How many more may be measured at once, and start of each team that has a cap; templates that
    are being measured; pairs of a job and a GPU that it was taken off."""

    at_once: int
    teams: Mapping[str, int] = field(default_factory=dict)
    keys: frozenset[str] = frozenset()
    avoid: frozenset[tuple[UUID, int]] = frozenset()


def choose(wanting: Iterable[Wanting], free: Iterable[Free], room: Room) -> dict[UUID, int]:
    """The GPU of each job that is measured now; `wanting` in the order of their turn."""
    largest_first = sorted(free, key=lambda gpu: (-gpu.quota_bytes, gpu.id))
    chosen: dict[UUID, int] = {}
    keys, started = set(room.keys), Counter[str]()
    for job in wanting:
        if len(chosen) >= room.at_once:
            break
        capped = started[job.team] >= room.teams.get(job.team, started[job.team] + 1)
        if capped or (job.key and job.key in keys):
            continue
        gpu = next((one for one in largest_first if _fits(job, one, room)), None)
        if gpu is not None:
            largest_first.remove(gpu)
            chosen[job.id] = gpu.id
            keys.add(job.key)
            started[job.team] += 1
    return chosen


def _fits(job: Wanting, gpu: Free, room: Room) -> bool:
    return (
        job.memory_bytes <= gpu.quota_bytes
        and (not job.pools or gpu.pool in job.pools)
        and (not job.gpu_models or gpu.model in job.gpu_models)
        and job.labels <= gpu.labels
        and _has(gpu.cpu_cores, job.cpu_cores)
        and _has(gpu.host_memory_bytes, job.host_memory_bytes)
        and (job.id, gpu.id) not in room.avoid
    )


def _has(there: float | None, wanted: float | None) -> bool:
    """What a node does not tell forbids nothing."""
    return wanted is None or there is None or wanted <= there
