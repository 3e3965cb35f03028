"""Which pods run on which GPU: pod to GPU by way of the processes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from agents.collectors.attribution import Lookup
from agents.kubernetes.objects import Pod
from agents.kubernetes.roster import Roster


@dataclass(frozen=True, slots=True)
class Census:
    """`on` is by the UUID of a GPU: its pods and the PIDs of each. `elsewhere` are those without
    a process on any GPU. `trouble`: why the pods are not known, "" when they are."""

    on: Mapping[str, Mapping[Pod, tuple[int, ...]]] = field(default_factory=dict)
    elsewhere: tuple[Pod, ...] = ()
    trouble: str = ""


def census(roster: Roster, online: Mapping[str, Iterable[int]], lookup: Lookup) -> Census:
    """`online` are the PIDs of the online processes on each GPU."""
    on = {uuid: _by_pod(roster, pids, lookup) for uuid, pids in online.items()}
    seen = {pod.uid for pods in on.values() for pod in pods}
    return Census(on, tuple(pod for uid, pod in roster.pods.items() if uid not in seen))


def _by_pod(roster: Roster, pids: Iterable[int], lookup: Lookup) -> dict[Pod, tuple[int, ...]]:
    found: dict[Pod, tuple[int, ...]] = {}
    for pid in pids:
        identity = lookup(pid)
        pod = None if identity is None else roster.of(identity.container)
        if pod is not None:
            found[pod] = (*found.get(pod, ()), pid)
    return found
