"""What may happen to an eviction. Pure: rows are facts, `now` is an argument."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from agents.wire.names import AGENT_ORIGINS, PHASES, Origin, Phase
from console.errors import IllegalTransition
from console.policies.rules import Default, Lane, Mode


class State(StrEnum):
    """Where an eviction is. docs/states.md has a sentence for each."""

    PROPOSED = "PROPOSED"
    APPROVED = "APPROVED"
    DISPATCHED = "DISPATCHED"
    STOPPING = "STOPPING"
    STUCK = "STUCK"
    COMPLETED = "COMPLETED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    SUPERSEDED = "SUPERSEDED"
    FAILED = "FAILED"


class Event(StrEnum):
    """What a person, the clock or the node does to an eviction."""

    APPROVE = "approve"
    KEEP = "keep"
    UNDO = "undo"
    RUN_BY_DEFAULT = "run_by_default"
    DROP_BY_DEFAULT = "drop_by_default"
    DISPATCH = "dispatch"
    PHASE = "phase"
    STUCK = "stuck"
    GONE = "gone"
    FAIL = "fail"
    SUPERSEDE = "supersede"
    JOB_ENDED = "job_ended"


TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.PROPOSED, Event.APPROVE): State.APPROVED,
    (State.PROPOSED, Event.KEEP): State.REJECTED,
    (State.PROPOSED, Event.RUN_BY_DEFAULT): State.APPROVED,
    (State.PROPOSED, Event.DROP_BY_DEFAULT): State.EXPIRED,
    (State.PROPOSED, Event.SUPERSEDE): State.SUPERSEDED,
    (State.PROPOSED, Event.JOB_ENDED): State.SUPERSEDED,
    (State.APPROVED, Event.UNDO): State.PROPOSED,
    (State.APPROVED, Event.KEEP): State.REJECTED,
    (State.APPROVED, Event.DISPATCH): State.DISPATCHED,
    (State.APPROVED, Event.SUPERSEDE): State.SUPERSEDED,
    (State.APPROVED, Event.JOB_ENDED): State.SUPERSEDED,
    (State.DISPATCHED, Event.PHASE): State.STOPPING,
    (State.DISPATCHED, Event.SUPERSEDE): State.SUPERSEDED,
    (State.DISPATCHED, Event.JOB_ENDED): State.COMPLETED,
    (State.STOPPING, Event.PHASE): State.STOPPING,
    (State.STOPPING, Event.STUCK): State.STUCK,
    (State.STOPPING, Event.SUPERSEDE): State.SUPERSEDED,
    (State.STOPPING, Event.JOB_ENDED): State.COMPLETED,
    (State.STUCK, Event.GONE): State.STOPPING,
    (State.STUCK, Event.FAIL): State.FAILED,
    (State.STUCK, Event.SUPERSEDE): State.SUPERSEDED,
}

# What a node may stop a job for by itself: also its lease, its switch, a job nobody names any more.
BY_NODE: Final = AGENT_ORIGINS | {Origin.POLICY, Origin.STOP_SHARING}

OPEN: Final = (State.PROPOSED, State.APPROVED, State.DISPATCHED, State.STOPPING, State.STUCK)
UNDECIDED: Final = (State.PROPOSED, State.APPROVED)
# From here on the node has been told, so nothing can be taken back.
UNDER_WAY: Final = (State.DISPATCHED, State.STOPPING, State.STUCK)

# A stop that is stuck for this long has failed, and its GPU is taken out of use.
STUCK_S: Final = 120.0


def next_state(state: State, event: Event, subject: str = "It", story: str = "") -> State:
    """Where `event` leads. Raises IllegalTransition with `story`, which tells how it came there."""
    try:
        return TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(subject, state.value, event.value, story) from None


@dataclass(frozen=True)
class Entry:
    """How an eviction begins: waiting for a person, or decided and due at `dispatch_at`."""

    state: State
    deadline_at: datetime | None = None
    default: Default | None = None
    dispatch_at: datetime | None = None


def enter(lane: Lane, gone_last_hour: int, now: datetime) -> Entry:
    """How a proposal begins; beyond its budget an automatic one waits for a person."""
    if lane.mode is Mode.AUTOMATIC and within_budget(lane, gone_last_hour):
        return decided(lane, now)
    return Entry(State.PROPOSED, now + timedelta(seconds=lane.deadline_s), lane.default)


def decided(lane: Lane, now: datetime) -> Entry:
    """Approved already; the time to undo runs."""
    return Entry(State.APPROVED, dispatch_at=now + timedelta(seconds=lane.undo_s))


def within_budget(lane: Lane, gone_last_hour: int) -> bool:
    return lane.budget_per_hour is None or gone_last_hour < lane.budget_per_hour


@dataclass(frozen=True)
class Timing:
    """The facts about one open eviction that the clock acts on."""

    state: State
    state_since: datetime
    deadline_at: datetime | None
    default: Default | None
    dispatch_at: datetime | None
    longest_stop_s: float
    node_answers: bool
    within_budget: bool = True


def due(facts: Timing, now: datetime) -> Event | None:
    """What the clock does now, or None. While its node is silent no stop is called stuck."""
    if facts.state is State.APPROVED and facts.dispatch_at and facts.dispatch_at <= now:
        return Event.DISPATCH
    if facts.state is State.PROPOSED and facts.deadline_at and facts.deadline_at <= now:
        runs = facts.default is Default.RUN and facts.within_budget
        return Event.RUN_BY_DEFAULT if runs else Event.DROP_BY_DEFAULT
    if not facts.node_answers:
        return None
    in_state_s = (now - facts.state_since).total_seconds()
    if facts.state is State.STOPPING and in_state_s > facts.longest_stop_s:
        return Event.STUCK
    if facts.state is State.STUCK and in_state_s > STUCK_S:
        return Event.FAIL
    return None


def event_of(phase: Phase, state: State) -> Event:
    """What a phase means: a stuck job that is gone is stopping again."""
    gone = PHASES.index(phase) >= PHASES.index(Phase.GONE)
    return Event.GONE if state is State.STUCK and gone else Event.PHASE


def furthest(reached: str, phase: Phase) -> Phase:
    """The later of the two: events may come twice or late, a stop never goes back."""
    if not reached:
        return phase
    return max(Phase(reached), phase, key=PHASES.index)


def serves(state: str, origin: str, wanted: Origin) -> bool:
    """Whether an open eviction does what somebody asks for now: nothing new is needed then."""
    return state in UNDER_WAY or (state == State.APPROVED and origin == wanted)


def is_more_urgent(origin: Origin, than: Origin) -> bool:
    """An emergency outranks an overload, and both outrank whatever the console wanted."""
    rank = {Origin.EMERGENCY: 2, Origin.OVERLOAD: 1}
    return rank.get(origin, 0) > rank.get(than, 0)


def wants_review(origin: Origin) -> bool:
    """True for what no person decided and no lane could stop."""
    return origin in AGENT_ORIGINS
