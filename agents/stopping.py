"""The stop of one offline process as a machine: what to do next, and when it is late. Pure.

An ordinary stop tells the job first and gives it a checkpoint window, in which launches pass at
the floor duty; an emergency holds it frozen until the online side is calm, or until its deadline.
Then both go the same way: gate → quiesce → release → exit, and each step that is late calls for
the next harder one. The order is the safety property: a process that dies with work in flight can
take its neighbours along, so nothing is killed before its context is released or MPS was asked to
end it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from agents.wire import limits
from agents.wire.names import AGENT_ORIGINS, PHASES, Checkpoint, Origin, Phase
from agents.wire.policy import AgentPolicy


class StopActionKind(StrEnum):
    """What the caller does now.

    FLOOR_DUTY lets launches pass at the floor duty (and lifts a freeze); FREEZE holds them again.
    STUCK reports a missed deadline; FAILED that the process or its memory would not go, so that
    the GPU must be disabled. DONE ends the stop.
    """

    SEND_SIGTERM = "send_sigterm"
    FLOOR_DUTY = "floor_duty"
    FREEZE = "freeze"
    GATE = "gate"
    QUIESCE = "quiesce"
    RELEASE = "release"
    TERMINATE_CLIENT = "terminate_client"
    KILL = "kill"
    REPORT = "report"
    STUCK = "stuck"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StopAction:
    """`phase` is set for REPORT, `why` for STUCK and FAILED."""

    kind: StopActionKind
    phase: Phase | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is true of the process and its GPU now.

    `checkpointed`: it saved after SIGTERM. `gated`, `quiesced`, `released`: xCUDA's own account, of
    a process that is gone its last; true for a process without it. `held`: SysMonitor wants
    offline work frozen; `calm` and `pressing`: see `sysmonitor.machine`.
    """

    gone: bool = False
    checkpointed: bool = False
    gated: bool = False
    quiesced: bool = False
    released: bool = False
    memory_returned: bool = False
    held: bool = False
    calm: bool = False
    pressing: bool = False


class Stage(StrEnum):
    """What the stop waits for."""

    WINDOW = "the job to save and exit"
    HELD = "the online side to calm down"
    GATING = "launches to be held"
    QUIESCING = "work in flight to finish"
    RELEASING = "the context to be released"
    EXITING = "the process to exit"
    TERMINATING = "MPS to end the client"
    KILLING = "the process to die"
    RETURNING = "memory to return"
    DONE = "nothing"
    FAILED = "a person"


class Next(NamedTuple):
    """How long a stage may take, and where it leads when its aim is reached, and when missed."""

    within_s: float
    reached: Stage
    missed: Stage


# The way of every stop once its window is shut.
FROM_GATE: Final[Mapping[Stage, Next]] = {
    Stage.GATING: Next(limits.GATE_S, Stage.QUIESCING, Stage.TERMINATING),
    Stage.QUIESCING: Next(limits.QUIESCE_S, Stage.RELEASING, Stage.TERMINATING),
    Stage.RELEASING: Next(limits.RELEASE_S, Stage.EXITING, Stage.TERMINATING),
    Stage.EXITING: Next(limits.EXIT_S, Stage.RETURNING, Stage.TERMINATING),
    Stage.TERMINATING: Next(limits.TERMINATE_S, Stage.RETURNING, Stage.KILLING),
    Stage.KILLING: Next(limits.KILL_S, Stage.RETURNING, Stage.FAILED),
    Stage.RETURNING: Next(limits.MEMORY_RETURN_S, Stage.DONE, Stage.FAILED),
}
# Passed faster than anybody looks: what a process that is gone has said of them is still told.
LAST_WORDS: Final = frozenset({Stage.GATING, Stage.QUIESCING, Stage.RELEASING})
BEFORE_GATE: Final = frozenset({Stage.WINDOW, Stage.HELD})
ENDED: Final = frozenset({Stage.DONE, Stage.FAILED})

# What the caller does on entering a stage.
_ON_ENTRY: Final[Mapping[Stage, tuple[StopActionKind, ...]]] = {
    Stage.WINDOW: (StopActionKind.FLOOR_DUTY,),
    Stage.HELD: (StopActionKind.FREEZE,),
    Stage.GATING: (StopActionKind.GATE,),
    Stage.QUIESCING: (StopActionKind.QUIESCE,),
    Stage.RELEASING: (StopActionKind.RELEASE,),
    Stage.TERMINATING: (StopActionKind.STUCK, StopActionKind.TERMINATE_CLIENT),
    Stage.KILLING: (StopActionKind.KILL,),
    Stage.DONE: (StopActionKind.DONE,),
    Stage.FAILED: (StopActionKind.FAILED,),
}
# What reaching the aim of a stage is reported as; leaving a stage late reports nothing.
_PASSED: Final[Mapping[tuple[Stage, Stage], Phase]] = {
    (Stage.GATING, Stage.QUIESCING): Phase.GATED,
    (Stage.QUIESCING, Stage.RELEASING): Phase.QUIESCED,
    (Stage.RELEASING, Stage.EXITING): Phase.RELEASED,
    (Stage.RETURNING, Stage.DONE): Phase.MEMORY_RETURNED,
}


class StopState(msgspec.Struct, frozen=True):
    """One stop under way, in durations: time away from it counts towards no deadline.

    `left_s` is what the stage still has. `grace_left_s` and `hold_left_s` are what the window may
    still be open, and shut, in all; `opens_when_calm` says that calm opens it, `emergency` that
    an open one shuts for good as soon as a limit is crossed.
    """

    stage: Stage
    phase: Phase
    left_s: float
    grace_left_s: float
    hold_left_s: float
    emergency: bool
    opens_when_calm: bool
    seen_at: float | None = None


Stopped: TypeAlias = tuple[StopState, tuple[StopAction, ...]]


def begin(
    origin: Origin,
    checkpoint: Checkpoint,
    grace_s: float,
    policy: AgentPolicy,
    now: float,
    *,
    at_once: bool = False,
    held: bool = False,
) -> Stopped:
    """Start a stop: origins `emergency` and `overload` by the emergency sequence, others ordinary.

    `overload` opens its checkpoint window once the online side is calm, `emergency` never does,
    an ordinary stop at once, unless SysMonitor has `held` the job. `at_once` leaves out every
    wait before the drain, as does a job that saves nothing.
    """
    emergency = origin in AGENT_ORIGINS
    first = Stage.HELD if emergency or held else Stage.WINDOW
    if at_once or checkpoint is Checkpoint.NONE:
        first = Stage.GATING
    state = StopState(
        stage=first,
        phase=Phase.ACCEPTED,
        left_s=0.0,
        grace_left_s=grace_s,
        hold_left_s=policy.emergency_deadline_s,
        emergency=emergency,
        opens_when_calm=origin is Origin.OVERLOAD,
        seen_at=now,
    )
    accepted = StopAction(StopActionKind.REPORT, Phase.ACCEPTED)
    told = StopAction(StopActionKind.SEND_SIGTERM)
    state, signalled = _report(state, Phase.SIGNALLED)
    state, entered = _enter(state, first)
    if first is Stage.HELD:  # held before it is told: its handler starts as it will find things
        return state, (accepted, *entered, told, *signalled)
    return state, (accepted, told, *signalled, *entered)


def step(state: StopState, seen: Seen, now: float) -> Stopped:
    """The next state and actions; call on every change seen and at least every 100 ms."""
    state = _elapsed(state, now)
    done: tuple[StopAction, ...] = ()
    if seen.checkpointed:
        state, done = _report(state, Phase.CHECKPOINTED)
    while (following := _following(state, seen)) is not state.stage:
        state, actions = _go(state, following)
        done += actions
    return state, done


def escalate(
    state: StopState, origin: Origin, policy: AgentPolicy, now: float, *, at_once: bool = False
) -> Stopped:
    """Turn a stop under way into an emergency; what is left of its window it may still use."""
    state = replace(
        _elapsed(state, now),
        emergency=True,
        opens_when_calm=origin is Origin.OVERLOAD,
        hold_left_s=policy.emergency_deadline_s,
    )
    if state.stage not in BEFORE_GATE:
        return state, ()
    return _enter(state, Stage.GATING if at_once else Stage.HELD)


def _elapsed(state: StopState, now: float) -> StopState:
    passed_s = 0.0 if state.seen_at is None else max(0.0, now - state.seen_at)
    open_s = passed_s if state.stage is Stage.WINDOW else 0.0
    held_s = passed_s if state.stage is Stage.HELD else 0.0
    return replace(
        state,
        left_s=state.left_s - passed_s,
        grace_left_s=state.grace_left_s - open_s,
        hold_left_s=state.hold_left_s - held_s,
        seen_at=now,
    )


def _following(state: StopState, seen: Seen) -> Stage:
    """The stage that what is seen calls for; the present one to go on waiting."""
    if state.stage in ENDED:
        return state.stage
    if seen.gone and state.stage is not Stage.RETURNING:
        told = state.stage in LAST_WORDS and _is_reached(state.stage, seen)
        return FROM_GATE[state.stage].reached if told else Stage.RETURNING
    if state.stage in BEFORE_GATE:
        return _window(state, seen)
    following = FROM_GATE[state.stage]
    if _is_reached(state.stage, seen):
        return following.reached
    return following.missed if state.left_s <= 0.0 else state.stage


def _window(state: StopState, seen: Seen) -> Stage:
    """Open, shut for now, or over."""
    if state.stage is Stage.WINDOW:
        if state.grace_left_s <= 0.0 or (state.emergency and seen.pressing):
            return Stage.GATING
        return Stage.HELD if seen.held and not state.emergency else Stage.WINDOW
    if state.hold_left_s <= 0.0 or state.grace_left_s <= 0.0:
        return Stage.GATING
    opens = state.opens_when_calm and seen.calm if state.emergency else not seen.held
    return Stage.WINDOW if opens else Stage.HELD


def _is_reached(stage: Stage, seen: Seen) -> bool:
    aims = {
        Stage.GATING: seen.gated,
        Stage.QUIESCING: seen.quiesced,
        Stage.RELEASING: seen.released,
        Stage.RETURNING: seen.memory_returned,
    }
    return aims.get(stage, seen.gone)


def _go(state: StopState, stage: Stage) -> Stopped:
    phase = Phase.GONE if stage is Stage.RETURNING else _PASSED.get((state.stage, stage))
    state, reported = _report(state, phase) if phase else (state, ())
    why = f"waited in vain for {state.stage}"
    state, entered = _enter(state, stage, why)
    return state, (*reported, *entered)


def _enter(state: StopState, stage: Stage, why: str = "") -> Stopped:
    within_s = FROM_GATE[stage].within_s if stage in FROM_GATE else 0.0
    spoken = {StopActionKind.STUCK, StopActionKind.FAILED}
    actions = tuple(
        StopAction(kind, why=why if kind in spoken else "") for kind in _ON_ENTRY.get(stage, ())
    )
    return replace(state, stage=stage, left_s=within_s), actions


def _report(state: StopState, phase: Phase) -> Stopped:
    """Say that a phase was passed, unless a later one was: never reordered, never twice."""
    if PHASES.index(phase) <= PHASES.index(state.phase):
        return state, ()
    return replace(state, phase=phase), (StopAction(StopActionKind.REPORT, phase),)


def to_dict(state: StopState) -> dict[str, Any]:
    """Plain data for the state file of the agent."""
    data: dict[str, Any] = msgspec.to_builtins(state)
    return data


def from_dict(data: dict[str, Any]) -> StopState:
    """The stop as it was saved; the time away counts towards no deadline. Raises ValueError."""
    try:
        saved = msgspec.convert(data, StopState)
    except msgspec.ValidationError as error:
        raise ValueError(f"not a saved stop: {error}") from error
    return replace(saved, seen_at=None)
