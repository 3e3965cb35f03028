from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.mps import recovery
from agents.mps.health import ServerState
from agents.mps.recovery import (
    ACTIVE_S,
    CUDA_CODES,
    END_S,
    MOST_FAULTS,
    MOVES,
    ONLINE_S,
    RESTART_S,
    WINDOW_S,
    Act,
    Recovery,
    Remedy,
    Seen,
    Stage,
)
from agents.sysmonitor.signals import FAULT_XIDS, HARDWARE_XIDS

ACTIVE, FAULT = ServerState.ACTIVE, ServerState.FAULT


# --- codes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "cuda", "xid", "remedy"),
    [
        (ACTIVE, None, None, Remedy.NOTHING),
        (ACTIVE, 2, None, Remedy.NOTHING),
        (ACTIVE, 810, None, Remedy.NOTHING),
        (ACTIVE, 808, None, Remedy.RESTART_JOB),
        (ACTIVE, None, 43, Remedy.RESTART_JOB),
        (ACTIVE, 807, None, Remedy.WAIT_ACTIVE),
        (ACTIVE, 806, None, Remedy.EVICT_ALL),
        (ACTIVE, 700, None, Remedy.EVICT_ALL),
        (FAULT, 700, None, Remedy.RECOVER),
        (FAULT, None, None, Remedy.RECOVER),
        (ServerState.INITIALIZING, None, None, Remedy.WAIT_ACTIVE),
        (ServerState.NO_DAEMON, None, None, Remedy.WAIT_ACTIVE),
        (FAULT, 214, None, Remedy.QUARANTINE),
        (FAULT, 719, 79, Remedy.QUARANTINE),
    ],
)
def test_the_gravest_of_state_code_and_xid_holds(state, cuda, xid, remedy):
    assert recovery.remedy(state, cuda, xid)[0] is remedy


@pytest.mark.parametrize("xid", HARDWARE_XIDS | FAULT_XIDS)
def test_an_xid_means_here_what_it_means_to_sysmonitor(xid):
    hardware = xid in HARDWARE_XIDS
    wanted = Remedy.QUARANTINE if hardware else Remedy.EVICT_ALL
    assert recovery.remedy(ACTIVE, xid=xid)[0] is wanted


def test_every_code_is_explained():
    for code in CUDA_CODES:
        what, why = recovery.remedy(ACTIVE, code)
        assert what is Remedy.NOTHING or f"CUDA error {code}: " in why


# --- the way back -----------------------------------------------------------------------


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


SEEN = st.builds(Seen, st.sampled_from(ServerState), st.booleans(), st.booleans(), st.booleans())


@given(st.lists(st.tuples(SEEN, st.floats(0.0, 100.0))))
def test_whatever_is_seen_offline_is_let_in_only_when_online_is_back(looks):
    state, now = Recovery(), 0.0
    for seen, passed_s in looks:
        now += passed_s
        before = state
        state, acts = recovery.step(state, seen, now)
        if Act.READMIT_OFFLINE in acts:
            assert seen.online_back
            assert before.holds_offline
        if state.stage is not before.stage:
            assert state.stage in {
                move.to for (stage, _), move in MOVES.items() if stage is before.stage
            }
        assert len(state.faults) <= MOST_FAULTS
