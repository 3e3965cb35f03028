"""SysMonitor: the state of one GPU, from samples, a policy and a few facts. Pure.

`local_step` runs on every local sample (5 Hz or more) and can only hold offline work, or evict by
the memory rule. `wire_step` runs on the sample that goes out once a second and takes every other
decision (`decisions`), as `transitions` allows. The caller carries out the actions and records
the transitions. To judge wire samples of which no local ones were kept (a backtest), call
`local_step` with the worst values first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from msgspec.structs import replace as amended

from agents.sysmonitor import thresholds
from agents.sysmonitor.cooldown import cooled
from agents.sysmonitor.crossings import Cause, Judged, crossings, explain, judged, worst_of
from agents.sysmonitor.decisions import View, decide, fault_in
from agents.sysmonitor.monitor import Action, ActionKind, Facts, Monitor, Step, Transition
from agents.sysmonitor.signals import Reading
from agents.sysmonitor.thresholds import Dwell
from agents.sysmonitor.transitions import EndlessMoves, Trigger, next_state
from agents.wire.names import GpuState, Origin, Signal
from agents.wire.policy import AgentPolicy

# The longest time between two wire samples that counts as watched.
MAX_STEP_S: Final = 2.0
# Steps are counted in tenths: a beat that is a millisecond early must not make a dwell of three
# seconds take four.
STEP_DIGITS: Final = 1
# The longest way in one second is from DISABLED to OVERLIMIT, in four moves; a way without an end
# would hold up the whole node.
MOST_MOVES: Final = 8
# Transitions kept to explain a defect.
STORY_LENGTH: Final = 8
# p99 as a ratio of the SLO beyond which an eviction of origin slo is proposed.
SLO_RATIO: Final = 1.0

OPEN_STATES: Final = frozenset({GpuState.HEALTHY, GpuState.UNHEALTHY})


def local_step(
    monitor: Monitor, sample: Reading, policy: AgentPolicy, facts: Facts, now: float
) -> Step:
    """Freeze on the first sample over a limit; evict on the second over the memory reserve.

    With nothing offline on the GPU there is nothing to hold: the wire samples judge it alone.
    """
    if not facts.offline_present:
        return Step(amended(monitor, reserve_sample=None))
    crossed = tuple(crossings(sample, policy, facts))
    step = _freeze(Step(monitor), sample, crossed, now)
    return _net(_memory_rule(step, sample, crossed, facts, now), monitor, facts, worst_of(crossed))


def _freeze(step: Step, sample: Reading, crossed: Sequence[Cause], now: float) -> Step:
    worst = worst_of(crossed)
    if worst is None:
        return step
    if step.monitor.state in OPEN_STATES:
        return _moved(_rearmed(step, crossed), Trigger.CROSSED, worst, now, (sample,))
    return replace(step, monitor=amended(step.monitor, held=True))


def _rearmed(step: Step, crossed: Iterable[Cause]) -> Step:
    """What is over its limit now counts as over it until it is seen under it."""
    over = [cause.signal for cause in crossed if cause.signal is not None]
    known = dict.fromkeys(over, Dwell()) | step.monitor.dwells
    dwells = {s: thresholds.rearmed(dwell, crossed=s in over) for s, dwell in known.items()}
    return replace(step, monitor=amended(step.monitor, dwells=dwells))


def _memory_rule(
    step: Step, sample: Reading, crossed: Iterable[Cause], facts: Facts, now: float
) -> Step:
    """The reserve crossed on two samples in a row evicts without more dwell: memory that the
    online side cannot get is an error there, not a delay."""
    if not facts.memory_is_new:
        return step
    over = next((cause for cause in crossed if cause.signal is Signal.MEMORY), None)
    first = step.monitor.reserve_sample
    if over is None and first is None:
        return step
    step = replace(step, monitor=amended(step.monitor, reserve_sample=sample if over else None))
    if over is None or first is None or step.monitor.state is not GpuState.GUARDED:
        return step
    cause = over._replace(why=f"{over.why}, on two samples in a row")
    step = _moved(step, Trigger.RESERVE, cause, now, (first, sample))
    return _acted(step, ActionKind.EVICT, cause, Origin.EMERGENCY)


def wire_step(
    monitor: Monitor,
    last: Reading,
    worst: Reading,
    policy: AgentPolicy,
    facts: Facts,
    now: float,
) -> Step:
    """Every transition that is not a freeze, from the last and the worst value of one second.

    Raises IllegalTransition, EndlessMoves.
    """
    against = judged(last, policy, facts)
    step = Step(_aged(monitor, last, worst, against, facts, now))
    view = View(step.monitor, last, worst, policy, facts, against)
    for _ in range(MOST_MOVES):
        decided = decide(view)
        if decided is None:
            break
        step = _carried_out(step, *decided, view, now)
        view = view._replace(monitor=step.monitor)
    else:
        raise EndlessMoves(step.monitor.story)
    step = _escalated(step, view)
    if step.monitor.person is not facts.disabled_by_person:
        step = replace(step, monitor=amended(step.monitor, person=facts.disabled_by_person))
    return _proposed(_net(step, monitor, facts), view)


def _aged(
    monitor: Monitor,
    last: Reading,
    worst: Reading,
    against: Iterable[Judged],
    facts: Facts,
    now: float,
) -> Monitor:
    """The monitor one second older; time in which nobody looked does not count."""
    dt_s = step_s(monitor, now)
    dwells = {
        signal: thresholds.advance(
            monitor.dwells.get(signal, thresholds.NEW),
            signal,
            threshold,
            limit,
            value,
            worst.get(signal),
            dt_s,
        )
        for signal, threshold, limit, value in against
    }
    blind = bool(dwells) and all(worst.get(signal) is None for signal in dwells)
    return amended(
        monitor,
        dwells=dwells,
        state_s=monitor.state_s + dt_s,
        quiet_s=monitor.quiet_s + dt_s,
        blind_n=monitor.blind_n + 1 if blind else 0,
        slo_s=_slo_s(monitor, last, facts, dt_s),
        seen_at=now,
    )


def step_s(monitor: Monitor, now: float) -> float:
    """The time since the last wire sample that counts as watched: nothing after a gap."""
    return 0.0 if monitor.seen_at is None else counted_s(now - monitor.seen_at)


def counted_s(passed_s: float) -> float:
    """What of the time between two wire samples counts."""
    dt_s = round(passed_s, STEP_DIGITS)
    return dt_s if 0.0 <= dt_s <= MAX_STEP_S else 0.0


def _slo_s(monitor: Monitor, last: Reading, facts: Facts, dt_s: float) -> float:
    """How long p99 has stayed over the SLO at lowered duty; a missing value pauses it."""
    ratio = last.get(Signal.ONLINE_P99)
    if monitor.state is not GpuState.UNHEALTHY or not facts.offline_present:
        return 0.0
    if ratio is None:
        return monitor.slo_s
    return monitor.slo_s + dt_s if ratio > SLO_RATIO else 0.0


def _carried_out(step: Step, trigger: Trigger, cause: Cause, view: View, now: float) -> Step:
    if view.monitor.state in OPEN_STATES and trigger in _GUARDING:
        step = _rearmed(step, crossings(view.last, view.policy, view.facts))
    step = _moved(step, trigger, cause, now)
    if trigger is Trigger.RETURNED:
        step = replace(step, monitor=cooled(step.monitor, view.policy))
    return _evicting(step, trigger, cause, view.facts)


_GUARDING: Final = frozenset({Trigger.CROSSED, Trigger.BLIND, Trigger.FAULT})


def _moved(
    step: Step, trigger: Trigger, cause: Cause, now: float, samples: tuple[Reading, ...] = ()
) -> Step:
    """One transition, recorded."""
    old = step.monitor
    state = next_state(old.state, trigger, old.story)
    story = (*old.story, f"{old.state} → {state}: {cause.why}")[-STORY_LENGTH:]
    moved = amended(old, state=state, since=now, why=cause.why, state_s=0.0, story=story)
    transition = Transition(old.state, state, *cause, samples)
    return Step(_settled_in(moved, old, cause), (*step.transitions, transition), step.actions)


def _settled_in(monitor: Monitor, old: Monitor, cause: Cause) -> Monitor:
    """What the state that was entered, or left, means for what is remembered."""
    if monitor.state in OPEN_STATES:
        monitor = amended(monitor, held=False)
    if monitor.state in {GpuState.GUARDED, GpuState.OVERLIMIT}:
        monitor = amended(monitor, held=True, cause=cause.signal)
    if monitor.state is GpuState.GUARDED:
        return amended(monitor, origin=old.state)
    if old.state is GpuState.COOLDOWN:
        return amended(monitor, quiet_s=0.0)
    # The person's word is used up: an error that is still there must not be lifted again.
    return amended(monitor, person=False) if old.state is GpuState.DISABLED else monitor


def _net(step: Step, before: Monitor, facts: Facts, crossed: Cause | None = None) -> Step:
    """One freeze or thaw for all that happened in this sample: first of all, or last."""
    held = step.monitor.held and facts.offline_present
    if held is not step.monitor.held:
        step = replace(step, monitor=amended(step.monitor, held=held))
    if held is before.held or not facts.offline_present:
        return step
    thawed = _acted(step, ActionKind.THAW, _last_cause(step, crossed))
    if not held:
        return thawed
    frozen = replace(thawed.actions[-1], kind=ActionKind.FREEZE)
    return replace(step, actions=(frozen, *step.actions))


def _last_cause(step: Step, crossed: Cause | None) -> Cause:
    if not step.transitions:
        return crossed or Cause(step.monitor.why)
    last = step.transitions[-1]
    return Cause(last.why, last.signal, last.value, last.limit)


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


def _escalated(step: Step, view: View) -> Step:
    """A fault where no guard leads to an eviction any more: told once, it hurries a stop that is
    under way, and ends what should not be there."""
    found, before = fault_in(view), view.monitor.faulty
    if before is not (found is not None):
        step = replace(step, monitor=amended(step.monitor, faulty=not before))
    told = any(action.kind is ActionKind.EVICT for action in step.actions)
    if found is None or before or told or not view.facts.offline_present:
        return step
    held = replace(step, monitor=amended(step.monitor, held=True))
    at_once = not view.facts.host_memory_short
    return _acted(held, ActionKind.EVICT, found, Origin.EMERGENCY, at_once=at_once)


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


def _proposed(step: Step, view: View) -> Step:
    """Ask for an eviction once p99 stayed over the SLO at lowered duty, and again a dwell later."""
    ratio = view.last.get(Signal.ONLINE_P99)
    overdue = step.monitor.slo_s >= view.policy.slo_dwell_s
    if step.monitor.state is not GpuState.UNHEALTHY or ratio is None or not overdue:
        return step
    stayed = f"stayed for {step.monitor.slo_s:.0f} s over the SLO at lowered duty"
    cause = explain(Signal.ONLINE_P99, ratio, SLO_RATIO, stayed)
    step = replace(step, monitor=amended(step.monitor, slo_s=0.0))
    return _acted(step, ActionKind.PROPOSE, cause, Origin.SLO)


def relimited(monitor: Monitor) -> Monitor:
    """Under other limits than before: what was over the old ones has proved nothing yet."""
    dwells = {
        signal: Dwell(missing_s=dwell.missing_s, seen_over=dwell.seen_over)
        for signal, dwell in monitor.dwells.items()
    }
    return amended(monitor, dwells=dwells, slo_s=0.0, reserve_sample=None)


def calm(monitor: Monitor, policy: AgentPolicy) -> bool:
    """True once what caused the guard has been under its lower threshold for its dwell: an
    emergency stop may then open its checkpoint window."""
    threshold = policy.thresholds.get(monitor.cause) if monitor.cause else None
    if monitor.cause is None or threshold is None:
        return False
    dwell = monitor.dwells.get(monitor.cause, thresholds.NEW)
    return thresholds.is_settled(dwell, threshold)


def pressing(sample: Reading, policy: AgentPolicy, facts: Facts) -> bool:
    """True while any limit is crossed: an open checkpoint window of an emergency closes."""
    return any(True for _ in crossings(sample, policy, facts))


def missing(last: Reading, policy: AgentPolicy, facts: Facts) -> tuple[Signal, ...]:
    """The thresholded signals that could be read on this GPU and are not: `GpuStatus.degraded`."""
    expected = judged(last, policy, facts)
    return tuple(each.signal for each in expected if each.value is None)
