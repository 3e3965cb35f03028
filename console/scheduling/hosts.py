"""What each GPU's node has left for an offline job, beside the GPU.

A part of its own for each GPU, so that two jobs of one round never count on the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from console.inventory.models import Gpu


class Host(NamedTuple):
    """Cores and bytes; None: the node does not tell."""

    cpu_cores: float | None
    memory_bytes: float | None


class Needs(Protocol):
    """A job, as far as its host goes; None: next to nothing."""

    @property
    def cpu_cores(self) -> float | None: ...
    @property
    def host_memory_bytes(self) -> float | None: ...


def left(gpus: Iterable[Gpu], guests: Mapping[int, Needs]) -> dict[int, Host]:
    """By GPU id. A guest's GPU has what the guest asked for, the free ones share what is left."""
    by_node: dict[int, list[Gpu]] = defaultdict(list)
    for gpu in gpus:
        by_node[gpu.node_id].append(gpu)
    return {pk: host for few in by_node.values() for pk, host in _of_node(few, guests).items()}


def _of_node(gpus: Sequence[Gpu], guests: Mapping[int, Needs]) -> dict[int, Host]:
    node = gpus[0].node
    jobs = [guests[gpu.pk] for gpu in gpus if gpu.pk in guests]
    free = len(gpus) - len(jobs)
    part = Host(
        _part(node.cpu_cores, [job.cpu_cores for job in jobs], free),
        _part(node.host_memory_bytes, [job.host_memory_bytes for job in jobs], free),
    )
    return {gpu.pk: _own(guests[gpu.pk]) if gpu.pk in guests else part for gpu in gpus}


def _part(whole: float | None, taken: Iterable[float | None], free: int) -> float | None:
    if whole is None or free == 0:
        return None
    return max(0.0, whole - sum(one or 0.0 for one in taken)) / free


def _own(job: Needs) -> Host:
    return Host(job.cpu_cores, job.host_memory_bytes)
