from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from agents import stopping
from agents.stopping import ENDED, Seen, Stage, StopActionKind
from agents.wire import limits
from agents.wire.names import PHASES, Checkpoint, Origin, Phase
from agents.wire.policy import balanced, longest_stop_s

POLICY = balanced(1, 1)  # grace 30 s, emergency deadline 10 s
SIGTERM, GATE, KILL = StopActionKind.SEND_SIGTERM, StopActionKind.GATE, StopActionKind.KILL
# A process whose every step succeeds, as xCUDA tells it, and one that does nothing it is told.
WILLING = Seen(gated=True, quiesced=True, released=True)
DEAF = Seen()
GONE = Seen(gone=True, memory_returned=True)


class Stop:
    """One stop, and everything it asked for."""

    def __init__(self, origin=Origin.MOVE, checkpoint=Checkpoint.ON_SIGTERM, **options):
        self.now = 100.0
        self.state, actions = stopping.begin(
            origin, checkpoint, POLICY.grace_s, POLICY, self.now, **options
        )
        self.actions = list(actions)

    def see(self, seen, for_s=0.1):
        """The same sight for a while, ten times a second."""
        for _ in range(round(for_s * 10)):
            self.now += 0.1
            self._keep(stopping.step(self.state, seen, self.now))
        return self

    def escalate(self, origin, **options):
        self._keep(stopping.escalate(self.state, origin, POLICY, self.now, **options))
        return self

    def _keep(self, stopped):
        self.state, actions = stopped
        self.actions += actions

    @property
    def kinds(self):
        return [action.kind for action in self.actions if action.phase is None]

    @property
    def phases(self):
        return [action.phase for action in self.actions if action.phase]


# --- ordinary ---------------------------------------------------------------------------


def test_an_ordinary_stop_tells_the_job_and_lets_it_save_at_floor_duty():
    stop = Stop()
    assert stop.kinds == [SIGTERM, StopActionKind.FLOOR_DUTY]
    assert stop.phases == [Phase.ACCEPTED, Phase.SIGNALLED]
    assert stop.state.stage is Stage.WINDOW


def test_a_job_that_saves_and_exits_in_its_window_is_never_gated():
    stop = Stop().see(Seen(), 3.0).see(Seen(checkpointed=True), 1.0).see(GONE)
    assert stop.phases[2:] == [Phase.CHECKPOINTED, Phase.GONE, Phase.MEMORY_RETURNED]
    assert stop.kinds == [SIGTERM, StopActionKind.FLOOR_DUTY, StopActionKind.DONE]


def test_the_gate_shuts_when_the_grace_has_ended_and_not_before():
    stop = Stop().see(WILLING, POLICY.grace_s - 0.2)
    assert GATE not in stop.kinds
    stop.see(WILLING, 0.4)
    assert stop.kinds[2:] == [GATE, StopActionKind.QUIESCE, StopActionKind.RELEASE]
    assert stop.phases[2:] == [Phase.GATED, Phase.QUIESCED, Phase.RELEASED]


def test_a_job_that_saves_nothing_has_no_window():
    stop = Stop(checkpoint=Checkpoint.NONE)
    assert stop.kinds == [SIGTERM, GATE]


def test_a_guard_on_the_gpu_suspends_the_window_without_using_it_up():
    stop = Stop().see(Seen(held=True), 5.0)
    assert stop.kinds[-1:] == [StopActionKind.FREEZE]
    stop.see(Seen(), 0.2)
    assert stop.kinds[-1:] == [StopActionKind.FLOOR_DUTY]
    assert stop.state.grace_left_s > POLICY.grace_s - 1.0


def test_a_guard_that_does_not_end_shuts_the_window_for_good():
    stop = Stop().see(Seen(held=True), POLICY.emergency_deadline_s + 0.5)
    assert stop.kinds[-1:] == [GATE]


def test_a_stop_that_begins_under_a_guard_is_held_before_it_is_told():
    assert Stop(held=True).kinds == [StopActionKind.FREEZE, SIGTERM]


# --- emergency --------------------------------------------------------------------------


@pytest.mark.parametrize("origin", [Origin.OVERLOAD, Origin.EMERGENCY])
def test_an_emergency_is_held_before_it_is_told(origin):
    stop = Stop(origin)
    assert stop.kinds == [StopActionKind.FREEZE, SIGTERM]
    assert stop.see(DEAF, POLICY.emergency_deadline_s + 0.1).kinds[2:] == [GATE]


def test_calm_opens_the_window_of_an_overload():
    stop = Stop(Origin.OVERLOAD).see(DEAF, 2.0).see(Seen(calm=True, held=True), 0.2)
    assert stop.kinds[2:] == [StopActionKind.FLOOR_DUTY]
    assert stop.see(Seen(calm=True, held=True), POLICY.grace_s + 0.1).kinds[-1:] == [GATE]


def test_calm_does_not_open_the_window_of_an_emergency():
    stop = Stop(Origin.EMERGENCY).see(Seen(calm=True), POLICY.emergency_deadline_s - 0.2)
    assert stop.state.stage is Stage.HELD


def test_a_limit_crossed_again_shuts_the_window_of_an_overload_for_good():
    stop = Stop(Origin.OVERLOAD).see(Seen(calm=True), 1.0).see(Seen(pressing=True))
    assert stop.kinds[-1:] == [GATE]
    assert StopActionKind.FLOOR_DUTY not in stop.see(Seen(calm=True)).kinds[-1:]


def test_a_fault_is_drained_at_once():
    assert Stop(Origin.EMERGENCY, at_once=True).kinds == [SIGTERM, GATE]


def test_an_emergency_takes_over_an_ordinary_stop_and_its_window():
    stop = Stop().see(DEAF, 10.0).escalate(Origin.OVERLOAD)
    assert stop.kinds[-1:] == [StopActionKind.FREEZE]
    assert stop.phases == [Phase.ACCEPTED, Phase.SIGNALLED]
    stop.see(Seen(calm=True))
    assert stop.kinds[-1:] == [StopActionKind.FLOOR_DUTY]
    assert stop.see(Seen(calm=True), POLICY.grace_s - 9.5).kinds[-1:] == [GATE]


def test_an_emergency_does_not_turn_back_a_drain():
    stop = Stop(checkpoint=Checkpoint.NONE).escalate(Origin.EMERGENCY)
    assert stop.state.stage is Stage.GATING
    assert stop.kinds == [SIGTERM, GATE]


# --- deadlines --------------------------------------------------------------------------


def test_a_missed_deadline_asks_mps_first_and_kills_only_then():
    stop = Stop(checkpoint=Checkpoint.NONE).see(DEAF, limits.GATE_S + 0.1)
    assert stop.kinds[2:] == [StopActionKind.STUCK, StopActionKind.TERMINATE_CLIENT]
    assert "launches to be held" in stop.actions[-2].why
    stop.see(DEAF, limits.TERMINATE_S + 0.1)
    assert stop.kinds[-1:] == [KILL]


@pytest.mark.parametrize(
    ("reached", "waited_for"),
    [
        (Seen(gated=True), "work in flight"),
        (Seen(gated=True, quiesced=True), "context"),
        (WILLING, "exit"),
    ],
)
def test_each_step_of_the_drain_has_its_own_deadline(reached, waited_for):
    stop = Stop(checkpoint=Checkpoint.NONE).see(reached, 4.0)
    stuck = [action for action in stop.actions if action.kind is StopActionKind.STUCK]
    assert waited_for in stuck[0].why


def test_a_killed_process_whose_memory_returns_is_done():
    stop = Stop(checkpoint=Checkpoint.NONE).see(DEAF, 4.5).see(Seen(gone=True), 1.0).see(GONE)
    assert stop.kinds[-1:] == [StopActionKind.DONE]
    assert stop.phases[-2:] == [Phase.GONE, Phase.MEMORY_RETURNED]


def test_a_process_that_will_not_die_fails_the_stop():
    stop = Stop(checkpoint=Checkpoint.NONE).see(DEAF, 20.0)
    assert stop.state.stage is Stage.FAILED
    assert stop.kinds.count(StopActionKind.FAILED) == 1


def test_memory_that_does_not_return_fails_the_stop():
    stop = Stop().see(Seen(gone=True), limits.MEMORY_RETURN_S + 0.2)
    assert stop.actions[-1].kind is StopActionKind.FAILED
    assert "memory" in stop.actions[-1].why


def test_an_ended_stop_asks_for_nothing_more():
    stop = Stop().see(GONE)
    asked = len(stop.actions)
    assert len(stop.see(GONE, 5.0).actions) == asked


def test_the_time_away_counts_towards_no_deadline():
    stop = Stop().see(DEAF, 5.0)
    kept = json.loads(json.dumps(stopping.to_dict(stop.state)))
    assert stopping.from_dict(kept) == replace(stop.state, seen_at=None)
    stop.state = stopping.from_dict(kept)
    stop.now += 3_600.0
    assert stop.see(DEAF).state.grace_left_s == pytest.approx(POLICY.grace_s - 5.0, abs=0.2)


def test_a_saved_stop_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a saved stop"):
        stopping.from_dict({"stage": "asleep"})


# --- whatever happens -------------------------------------------------------------------

SIGHTS = st.builds(Seen, *[st.booleans()] * 9)
ORIGINS = st.sampled_from(Origin)


@pytest.mark.thorough
@given(
    ORIGINS,
    st.sampled_from(Checkpoint),
    st.booleans(),
    st.lists(st.tuples(SIGHTS, st.floats(0.0, 6.0), st.none() | ORIGINS), max_size=30),
)
def test_phases_are_never_reordered_and_nothing_is_killed_out_of_order(
    origin, checkpoint, at_once, story
):
    stop = Stop(origin, checkpoint, at_once=at_once)
    for seen, for_s, escalation in story:
        if escalation:
            stop.escalate(escalation)
        stop.see(seen, for_s)
    places = [PHASES.index(phase) for phase in stop.phases]
    assert places == sorted(set(places))
    assert stop.kinds.count(SIGTERM) == 1
    if KILL in stop.kinds:
        assert StopActionKind.TERMINATE_CLIENT in stop.kinds[: stop.kinds.index(KILL)]


@pytest.mark.thorough
@given(ORIGINS, st.sampled_from(Checkpoint), SIGHTS, st.integers(0, 400))
def test_no_stop_outlasts_the_longest_one(origin, checkpoint, seen, escalated_after):
    stop = Stop(origin, checkpoint)
    stop.see(seen, escalated_after / 10).escalate(Origin.OVERLOAD)
    stop.see(seen, longest_stop_s(POLICY) + 1.0)
    assert stop.state.stage in ENDED
    assert stop.now - 100.0 - escalated_after / 10 <= longest_stop_s(POLICY) + 1.1


def test_steps_that_a_job_took_faster_than_anybody_looked_are_told_from_its_last_words():
    gated = Stop(checkpoint=Checkpoint.NONE)

    gated.see(Seen(gone=True, memory_returned=True, gated=True, quiesced=True))

    assert gated.phases[2:] == [
        Phase.GATED,
        Phase.QUIESCED,
        Phase.GONE,
        Phase.MEMORY_RETURNED,
    ]


def test_a_job_that_died_without_a_word_passed_no_step():
    stop = Stop(checkpoint=Checkpoint.NONE).see(GONE)

    assert stop.phases[2:] == [Phase.GONE, Phase.MEMORY_RETURNED]
