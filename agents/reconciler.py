"""What to start, stop and forget so that the node becomes what it should be. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from typing import TypeAlias

from agents.wire.messages import DesiredPlacement, DesiredState
from agents.wire.names import EndReason, GpuState, Origin, SharingMode


class Life(Enum):
    """Where a placement that the ledger knows is."""

    STARTING = auto()
    LIVE = auto()
    STOPPING = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Known:
    """One placement of the ledger. `unattended`: it lives, and nobody waits for its exit;
    `unlimited`: why it is not held to its limits, "" when it is."""

    placement_id: str
    gpu_index: int
    life: Life
    unattended: bool = False
    unlimited: str = ""


@dataclass(frozen=True, slots=True)
class GpuFloor:
    """One GPU as a place for offline work. `vacant`: no guest, and no memory of one. `shareable`:
    no fact forbids to share it. `leave`: why what runs must go, "" when nothing says so.
    `allows_unlimited`: its policy lets a job run that cannot be held to its limits. `calm`: its
    last sample is over no limit."""

    state: GpuState
    mode: SharingMode
    switched_off: bool = False
    vacant: bool = True
    shareable: bool = True
    leave: str = ""
    allows_unlimited: bool = False
    calm: bool = True

    @property
    def takes_work(self) -> bool:
        return (
            self.vacant
            and self.calm
            and self.shareable
            and not self.switched_off
            and self.state is GpuState.HEALTHY
            and self.mode is SharingMode.ENFORCE
        )


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a plan depends on."""

    desired: DesiredState | None
    lease_holds: bool
    gpus: dict[int, GpuFloor]
    known: tuple[Known, ...]


@dataclass(frozen=True, slots=True)
class Start:
    placement: DesiredPlacement


@dataclass(frozen=True, slots=True)
class Stop:
    """Through the stop that its origin asks for. Without `eviction_id` it is the node's own wish.
    `grace_s` None: what the policy gives."""

    placement_id: str
    why: str
    end_reason: EndReason = EndReason.EVICTED
    origin: Origin = Origin.POLICY
    eviction_id: str | None = None
    grace_s: float | None = None


@dataclass(frozen=True, slots=True)
class Decline:
    """Told to stop before it ever started: from now on it never will."""

    placement: DesiredPlacement


@dataclass(frozen=True, slots=True)
class Forget:
    placement_id: str


Action: TypeAlias = Start | Stop | Decline | Forget


def plan(situation: Situation) -> tuple[Action, ...]:
    """The same situation gives the same plan; carrying it out twice changes nothing more."""
    wanted = _wanted(situation)
    known = {placement.placement_id for placement in situation.known}
    return (
        *_ends(situation, wanted),
        *_begins(situation, [wanted[one] for one in wanted if one not in known]),
    )


def _wanted(situation: Situation) -> dict[str, DesiredPlacement]:
    desired = situation.desired
    return {} if desired is None else {one.placement_id: one for one in desired.placements}


def _ends(situation: Situation, wanted: dict[str, DesiredPlacement]) -> Iterator[Action]:
    for known in situation.known:
        target = wanted.get(known.placement_id)
        if known.life is Life.LIVE:
            yield from _stop(situation, known, target)
        elif known.life is Life.ENDED and target is None and situation.desired is not None:
            yield Forget(known.placement_id)


def _stop(situation: Situation, known: Known, target: DesiredPlacement | None) -> Iterator[Action]:
    """At most one stop, for the first reason that holds."""
    placement_id = known.placement_id
    if target is not None and target.stop is not None:
        stop = target.stop
        yield Stop(
            placement_id,
            stop.reason,
            EndReason.EVICTED,
            stop.origin,
            stop.eviction_id,
            stop.grace_s,
        )
    elif known.unattended:
        yield Stop(placement_id, "its supervisor died", EndReason.LOST)
    elif known.unlimited and not situation.gpus[known.gpu_index].allows_unlimited:
        yield Stop(placement_id, known.unlimited, EndReason.FAILED, Origin.EMERGENCY)
    elif not situation.lease_holds:
        yield Stop(placement_id, "the lease expired", EndReason.LEASE_EXPIRED)
    elif situation.gpus[known.gpu_index].switched_off:
        why = "sharing was switched off on the node"
        yield Stop(placement_id, why, origin=Origin.STOP_SHARING)
    elif why := situation.gpus[known.gpu_index].leave:
        yield Stop(placement_id, why, origin=Origin.STOP_SHARING)
    elif target is None:
        yield Stop(placement_id, "the console no longer names it")


def _begins(situation: Situation, placements: list[DesiredPlacement]) -> Iterator[Action]:
    taken: set[int] = set()
    for placement in placements:
        if placement.stop is not None:
            yield Decline(placement)
        elif _may_start(situation, placement) and placement.gpu_index not in taken:
            taken.add(placement.gpu_index)
            yield Start(placement)


def _may_start(situation: Situation, placement: DesiredPlacement) -> bool:
    desired = situation.desired
    if desired is None or desired.cordoned or not situation.lease_holds:
        return False
    return situation.gpus[placement.gpu_index].takes_work
