"""What a wire sample calls for in each state. Pure: a trigger of the table, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from agents.sysmonitor import thresholds
from agents.sysmonitor.crossings import Cause, Judged, crossings, explain, worst_of
from agents.sysmonitor.monitor import Facts, Monitor
from agents.sysmonitor.signals import Reading, name, xid_gravity
from agents.sysmonitor.thresholds import NEW, Dwell
from agents.sysmonitor.transitions import Trigger
from agents.wire.names import GpuState, Signal
from agents.wire.policy import AgentPolicy, Threshold

# Wire samples in a row without any value before the GPU counts as blind.
BLIND_SAMPLES: Final = 2


class View(NamedTuple):
    """All that a decision may look at; `judged` are the thresholds that `last` is held against."""

    monitor: Monitor
    last: Reading
    worst: Reading
    policy: AgentPolicy
    facts: Facts
    judged: Sequence[Judged]

    def dwell(self, signal: Signal) -> Dwell:
        return self.monitor.dwells.get(signal, NEW)


Decision: TypeAlias = tuple[Trigger, Cause]


def decide(view: View) -> Decision | None:
    """What must happen now, disabling first; None to stay."""
    return _disabled(view) or _DECISIONS[view.monitor.state](view)


def _disabled(view: View) -> Decision | None:
    if view.monitor.state is GpuState.DISABLED:
        return None
    if view.facts.disabled_by_person:
        return Trigger.PERSON, Cause(view.facts.disable_reason or "a person disabled this GPU")
    if (xid := _xid(view, gravity=2)) is not None:
        why = f"XID {xid:.0f}: the hardware is suspect until a person says otherwise"
        return Trigger.HARDWARE, Cause(why, Signal.XID, xid)
    return None


def _xid(view: View, gravity: int) -> float | None:
    code = view.worst.get(Signal.XID)
    return code if code is not None and xid_gravity(code) == gravity else None


def _init(view: View) -> Decision | None:
    absent = _absent(view)
    if absent is not None:
        return Trigger.BUSY, absent
    if view.monitor.blind_n or any(not dwell.present for dwell in _required(view)):
        return None
    raised = (each for each in view.judged if view.dwell(each.signal).raised_n)
    busy = next(map(_lower_cause, raised), None)
    return (Trigger.BUSY, busy) if busy else (Trigger.CALM, Cause("all signals are readable"))


def _open(view: View) -> Decision | None:
    return _guard(view) or (_busy(view) if _is_healthy(view) else _recovered(view))


def _guard(view: View) -> Decision | None:
    if not view.facts.offline_present:
        return None
    if (fault := fault_in(view)) is not None:
        return Trigger.FAULT, fault
    if view.monitor.blind_n >= BLIND_SAMPLES:
        return Trigger.BLIND, Cause("no signal of this GPU can be read")
    crossed = worst_of(crossings(view.last, view.policy, view.facts))
    return (Trigger.CROSSED, crossed) if crossed else None


def fault_in(view: View) -> Cause | None:
    """What reaches every client of the GPU and so cannot wait for a dwell."""
    if view.facts.mps_fault:
        return Cause(view.facts.mps_fault)
    if view.facts.host_memory_short:
        return Cause(view.facts.host_memory_short)
    if (xid := _xid(view, gravity=1)) is not None:
        return Cause(f"XID {xid:.0f}: a client of this GPU faulted", Signal.XID, xid)
    return None


def _is_healthy(view: View) -> bool:
    return view.monitor.state is GpuState.HEALTHY


def _busy(view: View) -> Decision | None:
    absent = _absent(view)
    if absent is not None:
        return Trigger.BUSY, absent
    for each in view.judged:
        if thresholds.is_raised(view.dwell(each.signal), each.threshold):
            return Trigger.BUSY, _lower_cause(each)
    return None


def _lower_cause(each: Judged) -> Cause:
    if each.value is None:
        return Cause(f"{name(each.signal)} was beyond its lower limit when last read", each.signal)
    return explain(each.signal, each.value, each.threshold.lower, "is {beyond} its lower limit")


def _required(view: View) -> Iterable[Dwell]:
    return (view.dwell(each.signal) for each in view.judged if each.threshold.required)


def _absent(view: View) -> Cause | None:
    """What has been missing for too long: one required signal, or all of them."""
    most_s = view.policy.missing_dwell_s
    gone = [each for each in view.judged if view.dwell(each.signal).missing_s >= most_s]
    needed = next((each.signal for each in gone if each.threshold.required), None)
    if needed is not None:
        return Cause(f"{name(needed)} is required and cannot be read", needed)
    if gone and len(gone) == len(view.judged):
        return Cause("no signal of this GPU can be read")
    return None


def _recovered(view: View) -> Decision | None:
    if _absent(view) is not None or any(not dwell.present for dwell in _required(view)):
        return None
    if not _all(thresholds.is_recovered, view):
        return None
    return Trigger.CALM, Cause("all signals stayed well under their lower limits")


def _guarded(view: View) -> Decision | None:
    if not view.facts.offline_present:
        return _back(view), Cause("no offline work is left to hold")
    if (fault := fault_in(view)) is not None:
        return Trigger.FAULT, fault
    if view.monitor.blind_n:
        return None
    return _completed(view) or _noise(view)


def _back(view: View) -> Trigger:
    return Trigger.CALM if view.monitor.origin is GpuState.HEALTHY else Trigger.BUSY


def _completed(view: View) -> Decision | None:
    for signal, threshold, limit, value in view.judged:
        if signal is Signal.MEMORY or value is None:
            continue
        dwell = view.dwell(signal)
        if thresholds.is_completed(dwell, threshold):
            stayed = f"stayed for {dwell.over_s:.0f} s {{beyond}} its limit"
            return Trigger.COMPLETED, explain(signal, value, limit, stayed)
    return None


def _noise(view: View) -> Decision | None:
    if not _all(thresholds.is_cleared, view):
        return None
    return _back(view), Cause("noise: every signal stayed under its limit for its dwell")


def _all(proves: Callable[[Dwell, Threshold], bool], view: View) -> bool:
    return all(proves(view.dwell(each.signal), each.threshold) for each in view.judged)


def _overlimit(view: View) -> Decision | None:
    if view.facts.offline_present or not view.facts.offline_memory_returned:
        return None
    return Trigger.RETURNED, Cause("the offline work is gone and its memory has returned")


def _cooldown(view: View) -> Decision | None:
    if view.monitor.state_s < view.monitor.cooldown_s:
        return None
    waited = f"cooled down for {view.monitor.cooldown_s:.0f} s"
    return Trigger.CALM if _recovered(view) else Trigger.BUSY, Cause(waited)


def _enabled(view: View) -> Decision | None:
    if view.monitor.person and not view.facts.disabled_by_person:
        return Trigger.ENABLED, Cause("a person enabled this GPU")
    return None


_DECISIONS: Final[Mapping[GpuState, Callable[[View], Decision | None]]] = {
    GpuState.INIT: _init,
    GpuState.HEALTHY: _open,
    GpuState.UNHEALTHY: _open,
    GpuState.GUARDED: _guarded,
    GpuState.OVERLIMIT: _overlimit,
    GpuState.COOLDOWN: _cooldown,
    GpuState.DISABLED: _enabled,
}
