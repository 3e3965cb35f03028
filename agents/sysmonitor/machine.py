"""SysMonitor: the state of one GPU, from samples, a policy and a few facts. Pure.

`local_step` runs on every local sample (5 Hz or more) and can only hold offline work, or evict by
the memory rule. `wire_step` runs on the sample that goes out once a second and takes every other
decision. The caller carries out the actions and records the transitions. To judge wire samples of
which no local ones were kept (a backtest), call `local_step` with the worst values first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace as amended

from agents.sysmonitor import thresholds
from agents.sysmonitor.signals import Reading, amount, beyond, limit_of, name, xid_gravity
from agents.sysmonitor.thresholds import Dwell
from agents.sysmonitor.transitions import Trigger, next_state
from agents.wire.names import GpuState, Origin, Signal
from agents.wire.policy import Threshold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from agents.wire.policy import AgentPolicy

# The longest step between two wire samples that counts as watched.
MAX_STEP_S: Final = 2.0
# Wire samples in a row without any value before the GPU counts as blind.
BLIND_SAMPLES: Final = 2
# Transitions kept to explain a defect.
STORY_LENGTH: Final = 8
# p99 as a ratio of the SLO beyond which an eviction of origin slo is proposed.
SLO_RATIO: Final = 1.0

# Signals that tell of contention: limits on them protect online work, and hold only beside it.
CONTENTION: Final = frozenset(
    {
        Signal.GPU_UTIL,
        Signal.SM_ACTIVITY,
        Signal.SM_OCCUPANCY,
        Signal.MEMORY_BANDWIDTH,
        Signal.SM_CLOCK,
        Signal.PCIE_RX,
    }
)
OPEN_STATES: Final = frozenset({GpuState.HEALTHY, GpuState.UNHEALTHY})


class ActionKind(StrEnum):
    """What the agent does about it. PROPOSE asks the console for an eviction of origin slo."""

    FREEZE = "freeze"
    THAW = "thaw"
    EVICT = "evict"
    PROPOSE = "propose"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do to all offline work of this GPU, with the evidence in policy units.

    `at_once`: an eviction with nothing to wait for, as the clients of the GPU were hit already.
    """

    kind: ActionKind
    why: str
    origin: Origin | None = None
    signal: Signal | None = None
    value: float | None = None
    limit: float | None = None
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """One move of the machine; value and limit in policy units.

    `samples` are the local samples that made it, for the record that `replay` takes; empty for a
    move decided on a wire sample.
    """

    from_state: GpuState
    to_state: GpuState
    why: str
    signal: Signal | None = None
    value: float | None = None
    limit: float | None = None
    samples: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class Facts:
    """What else the machine must know about the GPU at the moment of a sample.

    `offline_memory_returned`: no byte of offline work is left on the card. `online_present`: some
    process that is not ours runs on it. A hardware quarantine lifts when `disabled_by_person` has
    been true and turns false.
    """

    offline_present: bool = False
    offline_memory_returned: bool = True
    online_present: bool = True
    disabled_by_person: bool = False
    disable_reason: str = ""
    mps_fault: bool = False
    host_memory_short: bool = False


class Monitor(msgspec.Struct, frozen=True):
    """Everything remembered of one GPU. Durations only, so that no gap completes a dwell.

    `since` is the `now` of the last transition, for display. `held`: this machine wants all
    offline work of the GPU frozen, also work that starts now. `origin` is the state that GUARDED
    goes back to, `cause` the signal it guards against (None: a fault, or nothing could be read).
    `cooldown_s` is the last cool-down given. `reserve_sample` is the first of two local samples
    over the memory reserve; it and `held` never bear on a wire decision.
    """

    state: GpuState = GpuState.INIT
    since: float = 0.0
    why: str = "no sample yet"
    held: bool = False
    origin: GpuState = GpuState.UNHEALTHY
    cause: Signal | None = None
    dwells: dict[Signal, Dwell] = {}
    state_s: float = 0.0
    blind_n: int = 0
    slo_s: float = 0.0
    cooldown_s: float = 0.0
    cooldown_level: int = -1
    quiet_s: float = 0.0
    person: bool = False
    reserve_sample: Reading | None = None
    seen_at: float | None = None
    story: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What one sample did."""

    monitor: Monitor
    transitions: tuple[Transition, ...] = ()
    actions: tuple[Action, ...] = ()


class Cause(NamedTuple):
    """Why something happens, in words and in figures."""

    why: str
    signal: Signal | None = None
    value: float | None = None
    limit: float | None = None


# --- local samples: hold at once --------------------------------------------------------


def local_step(
    monitor: Monitor, sample: Reading, policy: AgentPolicy, facts: Facts, now: float
) -> Step:
    """Freeze on the first sample over a limit; evict on the second over the memory reserve.

    With nothing offline on the GPU there is nothing to hold: the wire samples judge it alone.
    """
    if not facts.offline_present:
        return Step(amended(monitor, reserve_sample=None))
    crossed = worst_crossing(sample, policy, facts)
    step = _freeze(Step(monitor), sample, crossed, now)
    return _net(_memory_rule(step, sample, policy, facts, now), monitor, facts, crossed)


def _freeze(step: Step, sample: Reading, crossed: Cause | None, now: float) -> Step:
    if crossed is None:
        return step
    if step.monitor.state in OPEN_STATES:
        return _moved(_rearmed(step, crossed.signal), Trigger.CROSSED, crossed, now, (sample,))
    return replace(step, monitor=amended(step.monitor, held=True))


def _rearmed(step: Step, crossed: Signal | None) -> Step:
    known = {**({crossed: Dwell()} if crossed else {}), **step.monitor.dwells}
    dwells = {s: thresholds.rearmed(dwell, crossed=s is crossed) for s, dwell in known.items()}
    return replace(step, monitor=amended(step.monitor, dwells=dwells))


def _memory_rule(
    step: Step, sample: Reading, policy: AgentPolicy, facts: Facts, now: float
) -> Step:
    """The reserve crossed on two samples in a row evicts without more dwell: memory that the
    online side cannot get is an error there, not a delay."""
    over = next((c for c in crossings(sample, policy, facts) if c.signal is Signal.MEMORY), None)
    first = step.monitor.reserve_sample
    step = replace(step, monitor=amended(step.monitor, reserve_sample=sample if over else None))
    if over is None or first is None or step.monitor.state is not GpuState.GUARDED:
        return step
    cause = over._replace(why=f"{over.why}, on two samples in a row")
    step = _moved(step, Trigger.RESERVE, cause, now, (first, sample))
    return _acted(step, ActionKind.EVICT, cause, Origin.EMERGENCY)


def crossings(sample: Reading, policy: AgentPolicy, facts: Facts) -> Iterator[Cause]:
    """Every limit that this sample is over."""
    for signal, threshold in _judged(sample, policy, facts):
        value, limit = sample.get(signal), limit_of(signal, threshold, policy)
        if value is not None and beyond(signal, value, limit):
            yield _cause(signal, value, limit, "is over its limit")


def worst_crossing(sample: Reading, policy: AgentPolicy, facts: Facts) -> Cause | None:
    """The limit crossed by the most, relative to itself."""
    return max(crossings(sample, policy, facts), key=_excess, default=None)


def _excess(cause: Cause) -> float:
    value, limit = cause.value or 0.0, cause.limit or 0.0
    return abs(value - limit) / limit if limit else math.inf


def _cause(signal: Signal, value: float, limit: float, what: str) -> Cause:
    why = f"{name(signal)} {amount(signal, value)} {what}, {amount(signal, limit)}"
    return Cause(why, signal, value, limit)


def _judged(
    sample: Reading, policy: AgentPolicy, facts: Facts
) -> Iterator[tuple[Signal, Threshold]]:
    """The thresholds that mean something on this GPU now."""
    for signal, threshold in _thresholds(policy):
        beside_online = facts.online_present or signal not in CONTENTION
        if beside_online and sample.could_have(signal):
            yield signal, threshold


def _thresholds(policy: AgentPolicy) -> Iterable[tuple[Signal, Threshold]]:
    """Those of the policy, and memory's in any case: its reserve is no choice."""
    if Signal.MEMORY in policy.thresholds:
        return policy.thresholds.items()
    reserve_limit = 100.0 - policy.memory_reserve_percent
    return (*policy.thresholds.items(), (Signal.MEMORY, Threshold(reserve_limit, reserve_limit)))


# --- wire samples: everything else ------------------------------------------------------


def wire_step(
    monitor: Monitor,
    last: Reading,
    worst: Reading,
    policy: AgentPolicy,
    facts: Facts,
    now: float,
) -> Step:
    """Every transition that is not a freeze, from the last and the worst value of one second."""
    view = View(_aged(monitor, last, worst, policy, facts, now), last, worst, policy, facts)
    step = Step(view.monitor)
    while (decided := _decide(view)) is not None:
        step = _carried_out(step, *decided, view, now)
        view = view._replace(monitor=step.monitor)
    step = replace(step, monitor=amended(step.monitor, person=facts.disabled_by_person))
    return _proposed(_net(step, monitor, facts), view)


class View(NamedTuple):
    """All that a decision may look at."""

    monitor: Monitor
    last: Reading
    worst: Reading
    policy: AgentPolicy
    facts: Facts

    def judged(self) -> Iterator[tuple[Signal, Threshold, Dwell]]:
        for signal, threshold in _judged(self.last, self.policy, self.facts):
            yield signal, threshold, self.monitor.dwells.get(signal, Dwell())


Decision: TypeAlias = tuple[Trigger, Cause]


def _aged(
    monitor: Monitor, last: Reading, worst: Reading, policy: AgentPolicy, facts: Facts, now: float
) -> Monitor:
    """The monitor one second older; a gap in the samples counts for `MAX_STEP_S` at most."""
    dt_s = 0.0 if monitor.seen_at is None else min(max(0.0, now - monitor.seen_at), MAX_STEP_S)
    judged = dict(_judged(last, policy, facts))
    dwells = {
        signal: thresholds.advance(
            monitor.dwells.get(signal, Dwell()),
            signal,
            threshold,
            limit_of(signal, threshold, policy),
            last.get(signal),
            worst.get(signal),
            dt_s,
        )
        for signal, threshold in judged.items()
    }
    blind = bool(judged) and all(worst.get(signal) is None for signal in judged)
    return amended(
        monitor,
        dwells=dwells,
        state_s=monitor.state_s + dt_s,
        quiet_s=monitor.quiet_s + dt_s,
        blind_n=monitor.blind_n + 1 if blind else 0,
        slo_s=_slo_s(monitor, last, facts, dt_s),
        seen_at=now,
    )


def _slo_s(monitor: Monitor, last: Reading, facts: Facts, dt_s: float) -> float:
    """How long p99 has stayed over the SLO at lowered duty; a missing value pauses it."""
    ratio = last.get(Signal.ONLINE_P99)
    if monitor.state is not GpuState.UNHEALTHY or not facts.offline_present:
        return 0.0
    if ratio is None:
        return monitor.slo_s
    return monitor.slo_s + dt_s if ratio > SLO_RATIO else 0.0


def _decide(view: View) -> Decision | None:
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
    busy = next((_lower_cause(view, s, t) for s, t, d in view.judged() if d.raised_n), None)
    return (Trigger.BUSY, busy) if busy else (Trigger.CALM, Cause("all signals are readable"))


def _open(view: View) -> Decision | None:
    return _guard(view) or (_busy(view) if _is_healthy(view) else _recovered(view))


def _is_healthy(view: View) -> bool:
    return view.monitor.state is GpuState.HEALTHY


def _guard(view: View) -> Decision | None:
    if not view.facts.offline_present:
        return None
    if (fault := _fault(view)) is not None:
        return Trigger.FAULT, fault
    if view.monitor.blind_n >= BLIND_SAMPLES:
        return Trigger.BLIND, Cause("no signal of this GPU can be read")
    crossed = worst_crossing(view.last, view.policy, view.facts)
    return (Trigger.CROSSED, crossed) if crossed else None


def _fault(view: View) -> Cause | None:
    """What reaches every client of the GPU and so cannot wait for a dwell."""
    if view.facts.mps_fault:
        return Cause("the MPS server is in FAULT: every client of this GPU was hit")
    if view.facts.host_memory_short:
        return Cause("the host is short of memory")
    if (xid := _xid(view, gravity=1)) is not None:
        return Cause(f"XID {xid:.0f}: a client of this GPU faulted", Signal.XID, xid)
    return None


def _busy(view: View) -> Decision | None:
    absent = _absent(view)
    if absent is not None:
        return Trigger.BUSY, absent
    for signal, threshold, dwell in view.judged():
        if thresholds.is_raised(dwell, threshold):
            return Trigger.BUSY, _lower_cause(view, signal, threshold)
    return None


def _lower_cause(view: View, signal: Signal, threshold: Threshold) -> Cause:
    value = view.last.get(signal)
    if value is None:
        return Cause(f"{name(signal)} was over its lower limit when last read", signal)
    return _cause(signal, value, threshold.lower, "is over its lower limit")


def _required(view: View) -> Iterator[Dwell]:
    return (dwell for _, threshold, dwell in view.judged() if threshold.required)


def _absent(view: View) -> Cause | None:
    """What has been missing for too long: one required signal, or all of them."""
    judged = list(view.judged())
    long_gone = [s for s, _, d in judged if d.missing_s >= view.policy.missing_dwell_s]
    needed = [s for s, threshold, _ in judged if threshold.required and s in long_gone]
    if needed:
        return Cause(f"{name(needed[0])} is required and cannot be read", needed[0])
    if judged and len(long_gone) == len(judged):
        return Cause("no signal of this GPU can be read")
    return None


def _recovered(view: View) -> Decision | None:
    if _absent(view) is not None or any(not dwell.present for dwell in _required(view)):
        return None
    if not all(thresholds.is_recovered(dwell, limits) for _, limits, dwell in view.judged()):
        return None
    return Trigger.CALM, Cause("all signals stayed well under their lower limits")


def _guarded(view: View) -> Decision | None:
    if not view.facts.offline_present:
        return _back(view), Cause("no offline work is left to hold")
    if (fault := _fault(view)) is not None:
        return Trigger.FAULT, fault
    if view.monitor.blind_n:
        return None
    return _completed(view) or _noise(view)


def _back(view: View) -> Trigger:
    return Trigger.CALM if view.monitor.origin is GpuState.HEALTHY else Trigger.BUSY


def _completed(view: View) -> Decision | None:
    for signal, threshold, dwell in view.judged():
        value = view.last.get(signal)
        if signal is Signal.MEMORY or value is None:
            continue
        if thresholds.is_completed(dwell, threshold):
            limit = limit_of(signal, threshold, view.policy)
            stayed = f"stayed for {dwell.over_s:.0f} s over its limit"
            return Trigger.COMPLETED, _cause(signal, value, limit, stayed)
    return None


def _noise(view: View) -> Decision | None:
    if not all(thresholds.is_cleared(dwell, threshold) for _, threshold, dwell in view.judged()):
        return None
    return _back(view), Cause("noise: every signal stayed under its limit for its dwell")


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


# --- carrying a decision out ------------------------------------------------------------


def _carried_out(step: Step, trigger: Trigger, cause: Cause, view: View, now: float) -> Step:
    if view.monitor.state in OPEN_STATES and trigger in _GUARDING:
        step = _rearmed(step, cause.signal if trigger is Trigger.CROSSED else None)
    step = _moved(step, trigger, cause, now)
    if trigger is Trigger.RETURNED:
        step = replace(step, monitor=_cooling(step.monitor, view.policy))
    return _evicting(step, trigger, cause, view.facts)


_GUARDING: Final = frozenset({Trigger.CROSSED, Trigger.BLIND, Trigger.FAULT})


def _moved(
    step: Step, trigger: Trigger, cause: Cause, now: float, samples: tuple[Reading, ...] = ()
) -> Step:
    """One transition, with what the state it leads to means for offline work."""
    old = step.monitor
    state = next_state(old.state, trigger, old.story)
    story = (*old.story, f"{old.state} → {state}: {cause.why}")[-STORY_LENGTH:]
    monitor = amended(old, state=state, since=now, why=cause.why, state_s=0.0, story=story)
    if state in {GpuState.GUARDED, GpuState.OVERLIMIT}:
        monitor = amended(monitor, held=True, cause=cause.signal)
    if state is GpuState.GUARDED:
        monitor = amended(monitor, origin=old.state)
    if state in OPEN_STATES:
        monitor = amended(monitor, held=False)
    if old.state is GpuState.COOLDOWN:
        monitor = amended(monitor, quiet_s=0.0)
    if trigger is Trigger.ENABLED:
        monitor = amended(monitor, person=False)
    transition = Transition(old.state, state, *cause, samples)
    return Step(monitor, (*step.transitions, transition), step.actions)


def _net(step: Step, before: Monitor, facts: Facts, crossed: Cause | None = None) -> Step:
    """One freeze or thaw for all that happened in this sample: first of all, or last."""
    monitor, last = step.monitor, step.transitions[-1] if step.transitions else None
    held = monitor.held and facts.offline_present
    step = replace(step, monitor=amended(monitor, held=held))
    if held is before.held or not facts.offline_present:
        return step
    cause = Cause(last.why, last.signal, last.value, last.limit) if last else crossed
    why = cause or Cause(monitor.why)
    if held:
        return replace(step, actions=(Action(ActionKind.FREEZE, *_evidence(why)), *step.actions))
    return _acted(step, ActionKind.THAW, why)


def _evidence(cause: Cause) -> tuple[str, None, Signal | None, float | None, float | None]:
    return cause.why, None, cause.signal, cause.value, cause.limit


def _evicting(step: Step, trigger: Trigger, cause: Cause, facts: Facts) -> Step:
    """The eviction that a transition asks for; what a person disabled, the console empties."""
    if not facts.offline_present:
        return step
    if trigger is Trigger.COMPLETED:
        return _acted(step, ActionKind.EVICT, cause, Origin.OVERLOAD)
    if trigger is Trigger.HARDWARE:
        held = replace(step, monitor=amended(step.monitor, held=True))
        return _acted(held, ActionKind.EVICT, cause, Origin.EMERGENCY, at_once=True)
    if trigger is Trigger.FAULT and step.monitor.state is GpuState.OVERLIMIT:
        at_once = not facts.host_memory_short
        return _acted(step, ActionKind.EVICT, cause, Origin.EMERGENCY, at_once=at_once)
    return step


def _acted(
    step: Step,
    kind: ActionKind,
    cause: Cause,
    origin: Origin | None = None,
    *,
    at_once: bool = False,
) -> Step:
    action = Action(kind, cause.why, origin, cause.signal, cause.value, cause.limit, at_once)
    return replace(step, actions=(*step.actions, action))


def _cooling(monitor: Monitor, policy: AgentPolicy) -> Monitor:
    """The next cool-down: doubled when the last one ended within the window, halved for each
    quiet window since, between the policy's base and its bound."""
    windows = int(monitor.quiet_s // policy.cooldown_window_s)
    if monitor.cooldown_level < 0:
        level = 0
    else:
        level = max(0, monitor.cooldown_level - windows) if windows else monitor.cooldown_level + 1
    level = min(level, _highest_level(policy))
    cooldown_s = min(policy.cooldown_s * 2.0**level, max(policy.cooldown_max_s, policy.cooldown_s))
    return amended(monitor, cooldown_level=level, cooldown_s=cooldown_s)


def _highest_level(policy: AgentPolicy) -> int:
    """The level at which the bound is reached: beyond it a level would only delay the decay."""
    if policy.cooldown_max_s <= policy.cooldown_s or policy.cooldown_s <= 0.0:
        return 0
    return math.ceil(math.log2(policy.cooldown_max_s / policy.cooldown_s))


def _proposed(step: Step, view: View) -> Step:
    """Ask for an eviction once p99 stayed over the SLO at lowered duty, and again a dwell later."""
    ratio = view.last.get(Signal.ONLINE_P99)
    overdue = step.monitor.slo_s >= view.policy.slo_dwell_s
    if step.monitor.state is not GpuState.UNHEALTHY or ratio is None or not overdue:
        return step
    stayed = f"stayed for {step.monitor.slo_s:.0f} s over the SLO at lowered duty"
    cause = _cause(Signal.ONLINE_P99, ratio, SLO_RATIO, stayed)
    step = replace(step, monitor=amended(step.monitor, slo_s=0.0))
    return _acted(step, ActionKind.PROPOSE, cause, Origin.SLO)


# --- what others ask of a monitor -------------------------------------------------------


def calm(monitor: Monitor, policy: AgentPolicy) -> bool:
    """True once what caused the guard has been under its lower threshold for its dwell: an
    emergency stop may then open its checkpoint window."""
    threshold = policy.thresholds.get(monitor.cause) if monitor.cause else None
    if monitor.cause is None or threshold is None:
        return False
    dwell = monitor.dwells.get(monitor.cause, Dwell())
    return thresholds.is_settled(dwell, threshold)


def pressing(sample: Reading, policy: AgentPolicy, facts: Facts) -> bool:
    """True while any limit is crossed: an open checkpoint window of an emergency closes."""
    return any(True for _ in crossings(sample, policy, facts))


def missing(last: Reading, policy: AgentPolicy, facts: Facts) -> tuple[Signal, ...]:
    """The thresholded signals that could be read on this GPU and are not: `GpuStatus.degraded`."""
    judged = _judged(last, policy, facts)
    return tuple(signal for signal, _ in judged if last.get(signal) is None)


def to_dict(monitor: Monitor) -> dict[str, Any]:
    """Plain data for the state file of the agent."""
    data: dict[str, Any] = msgspec.to_builtins(monitor)
    return data


def from_dict(data: dict[str, Any], now: float) -> Monitor:
    """The monitor as it was saved; the time away counts towards no dwell.

    Raises msgspec.ValidationError when the data is not a saved monitor.
    """
    saved = msgspec.convert(data, Monitor)
    return amended(saved, seen_at=None, reserve_sample=None, since=now - saved.state_s)
