"""One offline job as its node sees it, and what follows from that. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import msgspec

from agents import stopping
from agents.actuators.base import Condition, JobFacts, Limits
from agents.ledger import Record
from agents.profiling import NOT_BEGUN, Measuring
from agents.reconciler import Known, Life
from agents.stopping import Seen, StopState
from agents.wire.messages import DesiredPlacement, PlacementStatus
from agents.wire.names import Avoid, EndReason, PlacementState

GONE: Final = frozenset({Condition.EXITED, Condition.VANISHED, Condition.NEVER_RAN})


@dataclass(slots=True)
class Guest:
    """One placement that has not ended. `gone_at`: when it was first seen gone (monotonic).
    `frozen`: by a decision that was told; `held`: at once, before there is one."""

    record: Record
    facts: JobFacts
    stop: StopState | None = None
    frozen: bool = False
    held: bool = False
    duty_percent: float | None = None
    gone_at: float | None = None
    measuring: Measuring = NOT_BEGUN

    @property
    def placement(self) -> DesiredPlacement:
        return self.record.placement

    @property
    def placement_id(self) -> str:
        return self.record.placement.placement_id

    @property
    def is_to_be_measured(self) -> bool:
        wanted = self.record.placement.measure is not None
        return wanted and not self.record.profiled and self.stop is None

    @property
    def gone(self) -> bool:
        return self.facts.condition in GONE

    @property
    def life(self) -> Life:
        if self.stop is not None:
            return Life.STOPPING
        return Life.STARTING if self.facts.condition is Condition.STARTING else Life.LIVE

    @property
    def state(self) -> PlacementState:
        if self.stop is not None:
            return PlacementState.STOPPING
        if self.facts.condition is Condition.STARTING:
            return PlacementState.STARTING
        return PlacementState.FROZEN if self.frozen else PlacementState.RUNNING


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a stop must know about the GPU of its job; see `stopping.Seen`. `memory_told`: some
    source says what offline work holds there."""

    memory_returned: bool
    memory_told: bool
    held: bool
    calm: bool
    pressing: bool


def recovered(record: Record) -> Guest:
    """A stop that was under way goes on where it was; one that makes no sense begins anew."""
    starting = JobFacts(Condition.STARTING)
    if record.stopping is None:
        return Guest(record, starting)
    try:
        return Guest(record, starting, stopping.from_dict(record.stopping.machine))
    except ValueError:
        return Guest(msgspec.structs.replace(record, stopping=None), starting)


def adjusted(held: DesiredPlacement, target: DesiredPlacement) -> DesiredPlacement | None:
    """The placement with what may change of it at any moment as in `target`: limits, and whether
    it is to be measured. None when that is the same."""
    changed = msgspec.structs.replace(
        held,
        memory_quota_bytes=target.memory_quota_bytes,
        duty_percent=target.duty_percent,
        measure=target.measure,
    )
    return None if changed == held else changed


def end_reason(facts: JobFacts) -> EndReason:
    if facts.condition is Condition.NEVER_RAN:
        return EndReason.NEVER_STARTED
    if facts.condition is Condition.VANISHED:
        return EndReason.LOST
    return EndReason.FINISHED if facts.exit_code == 0 else EndReason.FAILED


def avoided(guest: Guest) -> Avoid:
    """What was too much where it ran: its neighbours' GPU, or the memory of the whole host."""
    return Avoid.NODE if guest.facts.host_memory_short else Avoid.GPU


def seen(guest: Guest, around: Surroundings) -> Seen:
    facts = guest.facts
    return Seen(
        guest.gone,
        facts.checkpointed,
        facts.gated,
        facts.quiesced,
        facts.released,
        around.memory_returned,
        around.held,
        around.calm,
        around.pressing,
    )


def ended_status(record: Record) -> PlacementStatus:
    ended = record.ended
    if ended is None:
        return PlacementStatus(record.placement.placement_id, PlacementState.UNKNOWN)
    return PlacementStatus(
        record.placement.placement_id,
        PlacementState.ENDED,
        progress=ended.progress,
        work_done_s=ended.work_done_s,
        unsaved_work_s=ended.lost_work_s,
        end_reason=ended.reason,
    )


def status(guest: Guest, limits: Limits) -> PlacementStatus:
    facts = guest.facts
    return PlacementStatus(
        guest.placement_id,
        guest.state,
        limits.sm_share_percent,
        limits.duty_percent,
        limits.memory_quota_bytes,
        facts.memory_bytes,
        facts.progress,
        facts.normalised_throughput,
        facts.work_done_s,
        facts.unsaved_work_s,
        None if guest.stop is None else guest.stop.phase,
        xcuda_coverage=facts.coverage,
        remarks=facts.remarks,
    )


def known(record: Record, guest: Guest | None) -> Known:
    placement = record.placement
    if guest is None:
        return Known(placement.placement_id, placement.gpu_index, Life.ENDED)
    return Known(
        placement.placement_id,
        placement.gpu_index,
        guest.life,
        guest.facts.unattended,
        guest.facts.unlimited,
    )
