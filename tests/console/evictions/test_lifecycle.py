"""The table, pair by pair, and what the clock makes of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from agents.wire.names import Origin, Phase
from console.errors import IllegalTransition
from console.evictions import lifecycle
from console.evictions.lifecycle import Entry, Event, State, Timing, due, enter, next_state
from console.policies.rules import Default, Lane, Mode

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
PAIRS = list(product(State, Event))
ENDS = [state for state in State if state not in lifecycle.OPEN]

# Written out once more, so that a slip in the table shows.
EXPECTED = {
    "PROPOSED": {
        "approve": "APPROVED",
        "keep": "REJECTED",
        "run_by_default": "APPROVED",
        "drop_by_default": "EXPIRED",
        "supersede": "SUPERSEDED",
        "job_ended": "SUPERSEDED",
    },
    "APPROVED": {
        "undo": "PROPOSED",
        "keep": "REJECTED",
        "dispatch": "DISPATCHED",
        "supersede": "SUPERSEDED",
        "job_ended": "SUPERSEDED",
    },
    "DISPATCHED": {"phase": "STOPPING", "supersede": "SUPERSEDED", "job_ended": "COMPLETED"},
    "STOPPING": {
        "phase": "STOPPING",
        "stuck": "STUCK",
        "supersede": "SUPERSEDED",
        "job_ended": "COMPLETED",
    },
    "STUCK": {"gone": "STOPPING", "fail": "FAILED", "supersede": "SUPERSEDED"},
}


@pytest.mark.parametrize(("state", "event"), PAIRS, ids=str)
def test_every_pair_leads_where_it_should_or_raises(state, event):
    expected = EXPECTED.get(state, {}).get(event)
    if expected:
        assert next_state(state, event) == expected
        return
    with pytest.raises(IllegalTransition, match="kept it running"):
        next_state(state, event, "a off b", "J. Okafor kept it running.")


def test_nothing_leaves_an_end():
    assert not [pair for pair in lifecycle.TRANSITIONS if pair[0] in ENDS]


def test_every_open_state_can_end():
    for state in lifecycle.OPEN:
        seen, edge = {state}, [state]
        while edge:
            here = edge.pop()
            after = {to for (frm, _), to in lifecycle.TRANSITIONS.items() if frm == here}
            edge += after - seen
            seen |= after
        assert seen & set(ENDS), f"{state} is a trap"


def test_once_the_node_was_told_nothing_is_taken_back():
    for state in lifecycle.UNDER_WAY:
        assert (state, Event.UNDO) not in lifecycle.TRANSITIONS
        assert (state, Event.KEEP) not in lifecycle.TRANSITIONS


def test_the_story_names_subject_state_and_event():
    with pytest.raises(IllegalTransition) as raised:
        next_state(State.COMPLETED, Event.UNDO, "resnet off node-07", "Done 3 s ago.")
    assert (
        str(raised.value) == "resnet off node-07 is COMPLETED and cannot take 'undo'. Done 3 s ago."
    )


# --- lanes ------------------------------------------------------------------------------------

WAITS = Lane(Mode.PERSON, 8, 240.0, Default.RUN, undo_s=10)
ITSELF = Lane(Mode.AUTOMATIC, 2, 600.0, Default.KEEP, undo_s=10)


def test_a_lane_that_waits_for_a_person_sets_deadline_and_default():
    deadline = NOW + timedelta(seconds=240)
    assert enter(WAITS, 0, NOW) == Entry(State.PROPOSED, deadline, Default.RUN)


def test_an_automatic_lane_approves_with_time_to_undo():
    due_at = NOW + timedelta(seconds=10)
    assert enter(ITSELF, 1, NOW) == Entry(State.APPROVED, dispatch_at=due_at)


def test_beyond_its_budget_an_automatic_lane_waits_for_a_person():
    assert enter(ITSELF, 2, NOW).state is State.PROPOSED


def test_without_a_budget_there_is_no_limit():
    assert enter(Lane(Mode.AUTOMATIC), 10_000, NOW).state is State.APPROVED


def test_what_the_agent_decides_wants_a_review_and_nothing_else_does():
    wants = {origin for origin in Origin if lifecycle.wants_review(origin)}
    assert wants == {Origin.EMERGENCY, Origin.OVERLOAD}


# --- the clock --------------------------------------------------------------------------------


def facts(state, seconds_in_state=0.0, **changes) -> Timing:
    values = {
        "state": state,
        "state_since": NOW - timedelta(seconds=seconds_in_state),
        "deadline_at": None,
        "default": None,
        "dispatch_at": None,
        "longest_stop_s": 60.0,
        "node_answers": True,
        "within_budget": True,
    }
    return Timing(**values | changes)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_nothing_is_due_before_its_time():
    for state in State:
        timing = facts(state, deadline_at=ago(-1), default=Default.RUN, dispatch_at=ago(-1))
        assert due(timing, NOW) is None


def test_an_approved_one_is_dispatched_when_the_time_to_undo_is_over():
    assert due(facts(State.APPROVED, dispatch_at=NOW), NOW) is Event.DISPATCH


@pytest.mark.parametrize(
    ("default", "within_budget", "event"),
    [
        (Default.RUN, True, Event.RUN_BY_DEFAULT),
        (Default.RUN, False, Event.DROP_BY_DEFAULT),
        (Default.KEEP, True, Event.DROP_BY_DEFAULT),
    ],
)
def test_at_the_deadline_the_default_holds_within_the_budget(default, within_budget, event):
    timing = facts(State.PROPOSED, deadline_at=NOW, default=default, within_budget=within_budget)
    assert due(timing, NOW) is event


def test_a_stop_longer_than_the_longest_is_stuck():
    assert due(facts(State.STOPPING, 60.0), NOW) is None
    assert due(facts(State.STOPPING, 60.1), NOW) is Event.STUCK


def test_a_stuck_stop_fails_in_the_end():
    assert due(facts(State.STUCK, lifecycle.STUCK_S), NOW) is None
    assert due(facts(State.STUCK, lifecycle.STUCK_S + 1), NOW) is Event.FAIL


def test_while_its_node_is_silent_no_stop_is_called_stuck():
    for state in (State.STOPPING, State.STUCK):
        assert due(facts(state, 9_999.0, node_answers=False), NOW) is None


# --- phases -----------------------------------------------------------------------------------


def test_a_stop_never_goes_back_a_phase():
    assert lifecycle.furthest("", Phase.GATED) is Phase.GATED
    assert lifecycle.furthest("GATED", Phase.SIGNALLED) is Phase.GATED
    assert lifecycle.furthest("GATED", Phase.GONE) is Phase.GONE


@pytest.mark.parametrize(
    ("phase", "state", "event"),
    [
        (Phase.GATED, State.STOPPING, Event.PHASE),
        (Phase.GATED, State.STUCK, Event.PHASE),
        (Phase.GONE, State.STUCK, Event.GONE),
        (Phase.MEMORY_RETURNED, State.STUCK, Event.GONE),
        (Phase.GONE, State.STOPPING, Event.PHASE),
    ],
)
def test_only_gone_frees_a_stuck_stop(phase, state, event):
    assert lifecycle.event_of(phase, state) is event
