from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.mps import recovery
from agents.mps.arrivals import SETTLE_S
from agents.mps.health import ServerState
from agents.mps.recovery import (
    ACTIVE_S,
    END_S,
    MOST_FAULTS,
    MOST_HOOKS,
    MOVES,
    ONLINE_S,
    RESTART_S,
    RETRY_S,
    WINDOW_S,
    Act,
    Recovery,
    Seen,
    Stage,
)

ACTIVE, FAULT = ServerState.ACTIVE, ServerState.FAULT


class Gpu:
    """One recovery, ten steps a second, and all that it asked for."""

    def __init__(self):
        self.now, self.recovery, self.acts = 1_000.0, Recovery(), []

    def see(self, state, *, gone=True, back=False, for_s=0.1, **fields):
        for _ in range(max(1, round(for_s * 10))):
            seen = Seen(state, gone, back, **fields)
            self.recovery, acts = recovery.step(self.recovery, seen, self.now)
            self.acts += acts
            self.now += 0.1
        return self

    @property
    def stage(self):
        return self.recovery.stage

    def fault_and_back(self):
        return self.see(FAULT, for_s=0.3).see(ACTIVE, for_s=0.3).see(ACTIVE, back=True)


def test_a_gpu_that_is_well_asks_for_nothing():
    gpu = Gpu().see(ACTIVE, back=True, for_s=10)
    assert (gpu.stage, gpu.acts) == (Stage.SOUND, [])


def test_offline_ends_at_once_then_online_is_restarted_and_comes_in_first():
    gpu = Gpu().see(FAULT, gone=False)
    assert gpu.acts == [Act.END_OFFLINE]
    gpu.see(FAULT)
    assert gpu.acts[1:] == [Act.RESTART_ONLINE]
    gpu.see(ACTIVE, for_s=2)
    assert gpu.stage is Stage.READMITTING
    assert gpu.recovery.holds_offline
    gpu.see(ACTIVE, back=True)
    assert gpu.acts[2:] == [Act.READMIT_OFFLINE]
    assert not gpu.recovery.holds_offline


def test_an_offline_process_that_will_not_go_does_not_keep_online_waiting():
    gpu = Gpu().see(FAULT, gone=False, for_s=END_S + 0.3)
    assert gpu.acts == [Act.END_OFFLINE, Act.RESTART_ONLINE]


def test_a_server_that_stays_at_fault_is_restarted_and_online_with_it():
    gpu = Gpu().see(FAULT, for_s=ACTIVE_S + 0.5)
    assert gpu.acts == [Act.END_OFFLINE, Act.RESTART_ONLINE, Act.RESTART_SERVER]
    gpu.see(ServerState.NO_SERVER)
    assert gpu.acts[3:] == [Act.RESTART_ONLINE]


@pytest.mark.parametrize("state", [FAULT, ServerState.SILENT, ServerState.NO_DAEMON])
def test_a_server_that_does_not_come_back_is_a_persons_and_the_card_rests(state):
    gpu = Gpu().see(FAULT, for_s=0.3).see(state, for_s=ACTIVE_S + RESTART_S + 0.5)
    assert gpu.stage is Stage.GIVEN_UP
    assert gpu.acts[-2:] == [Act.PAGE, Act.QUARANTINE]
    assert gpu.see(ACTIVE, back=True, for_s=60).stage is Stage.GIVEN_UP
    assert gpu.see(ACTIVE, back=True, approved=True).stage is Stage.SOUND


def test_online_that_does_not_come_back_is_told_once_and_offline_stays_out():
    gpu = Gpu().see(FAULT, for_s=0.3).see(ACTIVE, for_s=ONLINE_S * 3)
    assert gpu.acts.count(Act.PAGE) == 1
    assert gpu.recovery.holds_offline
    assert gpu.see(ACTIVE, back=True).stage is Stage.SOUND


def test_all_that_can_be_done_is_done_within_fifteen_seconds():
    assert END_S + ACTIVE_S + RESTART_S < 15


def test_with_nobody_left_the_hook_waits_until_it_can_succeed_and_for_online_to_be_missing():
    gpu = Gpu().see(FAULT, online_there=False, for_s=1)
    assert (gpu.stage, gpu.acts) == (Stage.WAITING, [Act.END_OFFLINE])
    gpu.see(ACTIVE, online_there=False, online_missing=True, for_s=0.2)
    assert gpu.acts[1:] == [Act.RESTART_ONLINE]
    alone = Gpu().see(FAULT, online_there=False, for_s=1).see(ACTIVE, back=True, for_s=0.3)
    assert Act.RESTART_ONLINE not in alone.acts


def test_a_restart_that_fails_is_tried_again_with_longer_pauses_and_not_for_ever():
    gpu = Gpu().see(FAULT, for_s=0.3).see(ACTIVE)
    began, hooks = gpu.now, []
    while gpu.now < began + ONLINE_S * 2:
        before = gpu.acts.count(Act.RESTART_ONLINE)
        gpu.see(ACTIVE, online_missing=True)
        if gpu.acts.count(Act.RESTART_ONLINE) > before:
            hooks.append(gpu.now - began)
    assert hooks == pytest.approx([RETRY_S, 3 * RETRY_S], abs=0.5)
    assert len(hooks) + 1 == MOST_HOOKS
    assert gpu.stage is Stage.UNANSWERED


def test_the_first_restart_fails_and_the_second_brings_online_back():
    gpu = Gpu().see(FAULT, for_s=0.3).see(ACTIVE, online_missing=True, for_s=RETRY_S + 0.5)
    gpu.see(ACTIVE, for_s=SETTLE_S).see(ACTIVE, back=True)
    assert gpu.acts == [
        *(Act.END_OFFLINE, Act.RESTART_ONLINE, Act.RESTART_ONLINE, Act.READMIT_OFFLINE)
    ]
    assert gpu.now - 1_000.0 < 15


def test_online_that_comes_and_goes_is_restarted_a_pause_after_it_went():
    gpu = Gpu().see(FAULT, for_s=0.3).see(ACTIVE, for_s=10).see(ACTIVE, online_missing=True)
    assert gpu.acts.count(Act.RESTART_ONLINE) == 1
    gpu.see(ACTIVE, online_missing=True, for_s=RETRY_S)
    assert gpu.acts.count(Act.RESTART_ONLINE) == 2


def test_each_fault_has_its_own_tries():
    gpu = Gpu().see(FAULT, for_s=0.3).see(ACTIVE, online_missing=True, for_s=ONLINE_S / 2)
    gpu.see(FAULT, for_s=0.3).see(ACTIVE)
    assert gpu.recovery.hooks == 1


def test_a_fault_that_has_passed_already_is_recovered_from_too():
    assert Gpu().see(ACTIVE, back=True, faulted=True).stage is Stage.ENDING


def test_faults_that_come_again_and_again_are_a_persons():
    gpu = Gpu()
    for _ in range(MOST_FAULTS):
        assert gpu.fault_and_back().stage is Stage.SOUND
    gpu.see(FAULT)
    assert gpu.stage is Stage.GIVEN_UP
    assert gpu.acts[-3:] == [Act.END_OFFLINE, Act.PAGE, Act.QUARANTINE]


def test_old_faults_are_forgotten():
    gpu = Gpu()
    for _ in range(MOST_FAULTS * 2):
        assert gpu.fault_and_back().stage is Stage.SOUND
        gpu.now += WINDOW_S / 2


def test_a_second_fault_during_the_way_back_begins_it_again():
    gpu = Gpu().see(FAULT, for_s=0.3).see(ACTIVE).see(FAULT, gone=False)
    assert gpu.stage is Stage.ENDING


@pytest.mark.parametrize(
    ("state", "online", "approved", "allowed"),
    [
        (ACTIVE, 0, False, True),
        (ACTIVE, 1, False, False),
        (ACTIVE, 1, True, True),
        (ServerState.SILENT, 1, False, False),
        (FAULT, 9, False, True),
    ],
)
def test_only_a_server_at_fault_is_restarted_under_its_clients(state, online, approved, allowed):
    refused = recovery.why_not_restart(state, online, approved=approved)
    assert (refused == "") is allowed


SEEN = st.builds(Seen, st.sampled_from(ServerState), *[st.booleans()] * 6)


@given(st.lists(st.tuples(SEEN, st.floats(0.0, 100.0))))
def test_whatever_is_seen_offline_is_let_in_only_when_online_is_back(looks):
    state, now = Recovery(), 0.0
    for seen, passed_s in looks:
        now += passed_s
        before = state
        state, acts = recovery.step(state, seen, now)
        assert state.hooks <= MOST_HOOKS + 1
        if Act.READMIT_OFFLINE in acts:
            assert seen.online_back
            assert before.holds_offline
        if state.stage is not before.stage:
            assert state.stage in {
                move.to for (stage, _), move in MOVES.items() if stage is before.stage
            }
        assert len(state.faults) <= MOST_FAULTS
