"""The offline jobs on one node: started once, watched, held, stopped, accounted for.

Everything durable is in the ledger, everything told in the spool; both are written in the same
transaction. What the jobs do is the runtime's.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from agents import profiling, stopping
from agents.actuators.base import Capability, Condition, JobFacts, Runtime, StartFailed
from agents.guest import (
    Guest,
    Surroundings,
    adjusted,
    avoided,
    end_reason,
    ended_status,
    known,
    recovered,
    seen,
    status,
)
from agents.ledger import Ended, Ledger, Record, Stopping
from agents.reconciler import Decline, Forget, Known, Start, Stop
from agents.spool import Spool
from agents.stopping import StopAction, StopActionKind, Stopped
from agents.sysmonitor.monitor import Action as Verdict
from agents.wire.ids import uuid7
from agents.wire.messages import DesiredPlacement, PlacementStatus
from agents.wire.names import Avoid, Checkpoint, EndReason, EventKind, Origin, Phase, PlacementState
from agents.wire.policy import AgentPolicy

log = logging.getLogger(__name__)

URGENCY: Final = {Origin.OVERLOAD: 1, Origin.EMERGENCY: 2}
# Duty moves on every sample; a change too small to matter is not worth a write to the job.
DUTY_STEP_PERCENT: Final = 0.5
MEMORY_UNTOLD: Final = (
    "no source tells what offline work holds on this GPU: that its memory returned follows from its"
    " processes being gone, and was not seen on the device"
)


class Guests:
    """All placements of one node that the ledger knows."""

    def __init__(
        self,
        ledger: Ledger,
        spool: Spool,
        runtime: Runtime,
        window: Callable[[int], dict[str, Any] | None] = lambda _index: None,
    ) -> None:
        """`window`: the last seconds of a GPU, as an event tells them."""
        self._ledger, self._spool, self._runtime = ledger, spool, runtime
        self._window = window
        self._guests: dict[str, Guest] = {}

    def recover(self, now: float) -> None:
        """Takes over what an earlier life of this agent left. What did not live on has ended."""
        for record in self._ledger:
            if record.ended is None:
                self._runtime.adopt(record.placement)
                guest = recovered(record)
                self._guests[guest.placement_id] = guest
                self.observe(guest, now)
                guest.frozen = guest.facts.frozen

    def __iter__(self) -> Iterator[Guest]:
        return iter(tuple(self._guests.values()))

    @property
    def are_there(self) -> bool:
        return bool(self._guests)

    def on_gpu(self, gpu_index: int) -> Guest | None:
        """The job that holds the GPU; there is at most one."""
        for guest in self._guests.values():
            if guest.placement.gpu_index == gpu_index:
                return guest
        return None

    def known(self) -> tuple[Known, ...]:
        return tuple(
            known(record, self._guests.get(record.placement.placement_id))
            for record in self._ledger
        )

    def placement(self, placement_id: str) -> DesiredPlacement:
        return self._guests[placement_id].placement

    # --- what is seen -------------------------------------------------------------------

    def observe(self, guest: Guest, now: float) -> None:
        """Looks at one job; if it ended by itself it is accounted for at once."""
        guest.facts = self._runtime.observe(guest.placement_id, now)
        if guest.gone and guest.gone_at is None:
            guest.gone_at = now
        if guest.facts.condition is Condition.ALIVE and not guest.record.started:
            self._put(guest, msgspec.structs.replace(guest.record, started=True))
            self._tell(EventKind.PLACEMENT_STARTED, guest, {"pid": guest.facts.pid})
        if guest.gone and guest.stop is None:
            self._end(guest, end_reason(guest.facts))

    def follow(self, desired: Iterable[DesiredPlacement]) -> None:
        """Limits that may change while a job runs; what is fixed at its start waits for a new
        placement."""
        for target in desired:
            guest = self._guests.get(target.placement_id)
            if guest is not None and (placement := adjusted(guest.placement, target)) is not None:
                self._put(guest, msgspec.structs.replace(guest.record, placement=placement))
                self._runtime.set_memory_quota(guest.placement_id, placement.memory_quota_bytes)

    # --- what is planned ----------------------------------------------------------------

    def intend(self, action: Start) -> None:
        """Writes that this id is used up. Nothing runs before that is committed; if it never is,
        the next look at the job finds that it never ran."""
        guest = Guest(Record(action.placement), JobFacts(Condition.STARTING))
        self._ledger.put(guest.record)
        self._guests[guest.placement_id] = guest

    def start(self, action: Start, policy: AgentPolicy, now: float) -> None:
        """Only what is intended, durably, and only once."""
        guest = self._guests[action.placement.placement_id]
        try:
            self._runtime.start(action.placement)
        except StartFailed as failure:
            guest.facts = JobFacts(Condition.NEVER_RAN, why=str(failure))
            self._end(guest, EndReason.NEVER_STARTED)
            return
        self.set_duty(guest, policy.duty_floor_percent)
        guest.facts = self._runtime.observe(guest.placement_id, now)

    def decline(self, action: Decline) -> None:
        """Told to stop before it started: its id is used up."""
        ended = Ended(EndReason.NEVER_STARTED, "told to stop before it started")
        self._ledger.put(Record(action.placement, ended=ended))
        stop = action.placement.stop
        self._tell_ended(action.placement, ended, None if stop is None else stop.eviction_id)

    def forget(self, action: Forget) -> None:
        self._ledger.drop(action.placement_id)
        self._runtime.forget(action.placement_id)

    def stop(self, action: Stop, policy: AgentPolicy, held: bool, now: float) -> None:
        """`held`: SysMonitor wants the job frozen."""
        guest = self._guests[action.placement_id]
        if action.eviction_id is None:
            action = replace(action, eviction_id=str(uuid7()))
            told = {"why": action.why, "origin": action.origin}
            self._tell(EventKind.EVICTION_STARTED, guest, told, action.eviction_id)
        grace_s = policy.grace_s if action.grace_s is None else action.grace_s
        begun = stopping.begin(
            action.origin, guest.placement.checkpoint, grace_s, policy, now, held=held
        )
        self._enter_stop(guest, action, begun, policy)

    def measure(self, guest: Guest, second: profiling.Second | None, now: float) -> None:
        """Goes on with the measurement; None: the job was disturbed. It is told once."""
        wanted = guest.placement.measure
        if wanted is None:
            return
        guest.measuring, told = profiling.step(guest.measuring, wanted, second, now)
        if told is not None:
            self._put(guest, msgspec.structs.replace(guest.record, profiled=True))
            self._tell(EventKind.JOB_PROFILED, guest, told)

    def launches(self, guest: Guest) -> int | None:
        return self._runtime.launches(guest.placement_id)

    # --- what SysMonitor wants ----------------------------------------------------------

    def freeze(self, guest: Guest, action: Verdict, reaction_ms: float | None) -> None:
        if guest.frozen or Capability.FREEZE not in self._runtime.capabilities:
            return
        if not guest.held:
            self._runtime.freeze(guest.placement_id)
        guest.frozen = True
        self._tell(EventKind.FROZEN, guest, _evidence(action) | {"reaction_ms": reaction_ms})

    def hold(self, guest: Guest) -> None:
        """As `freeze`, for the moment until somebody has decided."""
        can_hold = Capability.FREEZE in self._runtime.capabilities
        if can_hold and not guest.frozen and guest.stop is None:
            self._runtime.freeze(guest.placement_id)
            guest.held = True

    def let_go(self, guest: Guest) -> None:
        """What was held and is not to be."""
        if guest.held and not guest.frozen and guest.stop is None:
            self._runtime.thaw(guest.placement_id)
        guest.held = False

    def thaw(self, guest: Guest, why: str) -> None:
        if not guest.frozen:
            return
        self._runtime.thaw(guest.placement_id)
        guest.frozen = False
        self._tell(EventKind.THAWED, guest, {"why": why})

    def evict(
        self,
        guest: Guest,
        action: Verdict,
        policy: AgentPolicy,
        reaction_ms: float | None,
        now: float,
    ) -> None:
        """An eviction of the node's own. One that is under way for less becomes this one."""
        origin = action.origin or Origin.OVERLOAD
        under_way = guest.record.stopping
        if under_way and URGENCY.get(under_way.origin, 0) >= URGENCY.get(origin, 0):
            return
        eviction_id = (under_way and under_way.eviction_id) or str(uuid7())
        told = _evidence(action) | {"origin": origin, "reaction_ms": reaction_ms}
        if (window := self._window(guest.placement.gpu_index)) is not None:
            told["window"] = window
        self._tell(EventKind.EVICTION_STARTED, guest, told, eviction_id)
        stop = Stop(
            guest.placement_id, action.why, EndReason.EVICTED, origin, eviction_id, policy.grace_s
        )
        begun = self._emergency(guest, action, origin, policy, now)
        self._enter_stop(guest, stop, begun, policy, avoided(guest))

    def _emergency(
        self,
        guest: Guest,
        action: Verdict,
        origin: Origin,
        policy: AgentPolicy,
        now: float,
    ) -> Stopped:
        if guest.stop is not None:
            return stopping.escalate(guest.stop, origin, policy, now, at_once=action.at_once)
        checkpoint = guest.placement.checkpoint
        return stopping.begin(
            origin, checkpoint, policy.grace_s, policy, now, at_once=action.at_once
        )

    def propose(self, guest: Guest, action: Verdict) -> None:
        """Asks the console for an eviction that is not the node's to decide."""
        told = _evidence(action) | {"origin": action.origin}
        self._tell(EventKind.EVICTION_PROPOSED, guest, told)

    def set_duty(self, guest: Guest, percent: float) -> None:
        before = guest.duty_percent
        if before is None or abs(before - percent) >= DUTY_STEP_PERCENT:
            self._runtime.set_duty(guest.placement_id, percent)
            guest.duty_percent = percent

    # --- stops under way ----------------------------------------------------------------

    def step_stop(
        self, guest: Guest, around: Surroundings, policy: AgentPolicy, now: float
    ) -> str | None:
        """One step of its stop. A text when the job or its memory would not go."""
        if guest.stop is None:
            return None
        before = guest.stop
        guest.stop, actions = stopping.step(before, seen(guest, around), now)
        failed = self._carry_out(guest, actions, policy)
        if guest.stop.stage in stopping.ENDED:
            self._finish_stop(guest, () if around.memory_told else (MEMORY_UNTOLD,))
        elif (guest.stop.stage, guest.stop.phase) != (before.stage, before.phase):
            self._save_stop(guest)
        return failed

    def _enter_stop(
        self,
        guest: Guest,
        action: Stop,
        begun: Stopped,
        policy: AgentPolicy,
        avoid: Avoid | None = None,
    ) -> None:
        log.info("stopping %s: %s", guest.placement_id, action.why)
        before = guest.record.stopping
        guest.stop, actions = begun
        under_way = Stopping(
            action.origin,
            action.end_reason,
            action.why,
            stopping.to_dict(guest.stop),
            action.eviction_id,
            signalled=before is not None and before.signalled,
            avoid=avoid,
        )
        self._put(guest, msgspec.structs.replace(guest.record, stopping=under_way))
        self._carry_out(guest, actions, policy)
        self._save_stop(guest)

    def _carry_out(
        self, guest: Guest, actions: Iterable[StopAction], policy: AgentPolicy
    ) -> str | None:
        """Why the stop failed, if that is among the actions."""
        failed = None
        for action in actions:
            failed = action.why if action.kind is StopActionKind.FAILED else failed
            self._perform(guest, action, policy)
        return failed

    def _perform(self, guest: Guest, action: StopAction, policy: AgentPolicy) -> None:
        """One action of the stop machine on the runtime, or in words."""
        runtime, placement_id = self._runtime, guest.placement_id
        match action.kind:
            case StopActionKind.SEND_SIGTERM:
                runtime.sigterm(placement_id, _window_s(guest))
                self._note_signalled(guest)
            case StopActionKind.FLOOR_DUTY:
                runtime.set_duty(placement_id, policy.duty_floor_percent)
                guest.duty_percent = policy.duty_floor_percent
                self.thaw(guest, "its work is being saved")
            case StopActionKind.FREEZE:
                runtime.freeze(placement_id)
                guest.frozen = Capability.FREEZE in runtime.capabilities
            case StopActionKind.GATE:
                runtime.gate(placement_id)
            case StopActionKind.QUIESCE:
                runtime.quiesce(placement_id)
            case StopActionKind.RELEASE:
                runtime.release(placement_id)
            case StopActionKind.TERMINATE_CLIENT:
                runtime.terminate_client(placement_id)
            case StopActionKind.KILL:
                runtime.kill(placement_id)
            case StopActionKind.REPORT:
                self._report(guest, action.phase)
            case StopActionKind.STUCK:
                self._tell_stop(EventKind.EVICTION_STUCK, guest, {"why": action.why})
            case StopActionKind.FAILED:
                self._tell_stop(EventKind.EVICTION_FAILED, guest, {"why": action.why})

    def _report(self, guest: Guest, phase: Phase | None) -> None:
        told = {
            "phase": phase,
            "lost_work_s": guest.facts.unsaved_work_s,
            "memory_bytes": guest.facts.memory_bytes,
        }
        self._tell_stop(EventKind.EVICTION_PHASE, guest, told)

    def _tell_stop(self, kind: EventKind, guest: Guest, data: dict[str, Any]) -> None:
        """A stop that an older agent began by itself has no eviction to tell of."""
        under_way = guest.record.stopping
        if under_way and under_way.eviction_id:
            self._tell(kind, guest, data, under_way.eviction_id)

    def _note_signalled(self, guest: Guest) -> None:
        under_way = guest.record.stopping
        if under_way is not None:
            under_way = msgspec.structs.replace(under_way, signalled=True)
            self._put(guest, msgspec.structs.replace(guest.record, stopping=under_way))

    def _save_stop(self, guest: Guest) -> None:
        under_way = guest.record.stopping
        if under_way is not None and guest.stop is not None:
            kept = stopping.to_dict(guest.stop)
            under_way = msgspec.structs.replace(under_way, machine=kept)
            self._put(guest, msgspec.structs.replace(guest.record, stopping=under_way))

    def _finish_stop(self, guest: Guest, remarks: tuple[str, ...]) -> None:
        """A failed stop ends too, once the process is gone after all."""
        under_way = guest.record.stopping
        if guest.gone:
            reason = EndReason.EVICTED if under_way is None else under_way.end_reason
            self._end(guest, reason, remarks)

    # --- ends ---------------------------------------------------------------------------

    def _end(self, guest: Guest, reason: EndReason, remarks: tuple[str, ...] = ()) -> None:
        under_way, facts = guest.record.stopping, guest.facts
        ended = Ended(
            reason,
            facts.why if under_way is None else under_way.why,
            facts.exit_code,
            facts.unsaved_work_s,
            facts.progress,
            facts.work_done_s,
            signalled=under_way is not None and under_way.signalled,
            remarks=facts.remarks + remarks,
            avoid=None if under_way is None else under_way.avoid,
        )
        del self._guests[guest.placement_id]
        self._ledger.put(msgspec.structs.replace(guest.record, ended=ended))
        self._tell_ended(
            guest.placement, ended, None if under_way is None else under_way.eviction_id
        )

    def _tell_ended(
        self, placement: DesiredPlacement, ended: Ended, eviction_id: str | None
    ) -> None:
        log.info("%s ended: %s %s", placement.placement_id, ended.reason, ended.why)
        self._spool.append(
            EventKind.PLACEMENT_ENDED,
            gpu_index=placement.gpu_index,
            placement_id=placement.placement_id,
            eviction_id=eviction_id,
            data=msgspec.structs.asdict(ended),
        )

    # --- in words -----------------------------------------------------------------------

    def statuses(self, desired: Iterable[DesiredPlacement]) -> tuple[PlacementStatus, ...]:
        """All that the ledger knows, then what is desired and has not begun."""
        begun = (self._status(record) for record in self._ledger)
        waiting = (one.placement_id for one in desired if one.placement_id not in self._ledger)
        return (*begun, *(PlacementStatus(one, PlacementState.DESIRED) for one in waiting))

    def _status(self, record: Record) -> PlacementStatus:
        guest = self._guests.get(record.placement.placement_id)
        if guest is None:
            return ended_status(record)
        return status(guest, self._runtime.limits(guest.placement_id))

    def _put(self, guest: Guest, record: Record) -> None:
        guest.record = record
        self._ledger.put(record)

    def _tell(
        self,
        kind: EventKind,
        guest: Guest,
        data: dict[str, Any],
        eviction_id: str | None = None,
    ) -> None:
        self._spool.append(
            kind,
            gpu_index=guest.placement.gpu_index,
            placement_id=guest.placement_id,
            eviction_id=eviction_id,
            data=data,
        )


def _window_s(guest: Guest) -> float:
    """What is left of the time in which its launches may pass for it to save."""
    if guest.stop is None or guest.placement.checkpoint is Checkpoint.NONE:
        return 0.0
    return max(0.0, guest.stop.grace_left_s)


def _evidence(action: Verdict) -> dict[str, Any]:
    return {
        "why": action.why,
        "signal": action.signal,
        "value": action.value,
        "limit": action.limit,
    }
