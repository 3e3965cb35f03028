from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.mps import arrivals
from agents.mps.arrivals import JOIN_S, SETTLE_S, STANCES, Arrivals, Online, Seen, Stance

OLD, NEW = 1, 2


class Watched:
    """One GPU, looked at once a second."""

    def __init__(self):
        self.now, self.state = 100.0, Arrivals()

    def see(self, pids, clients=None, for_s=1, *, server_open=True):
        """The same sight for a while; every process is a client unless `clients` says."""
        clients = pids if clients is None else clients
        for _ in range(round(for_s)):
            online = Online(frozenset(pids), frozenset(clients), server_open)
            self._look(online)
        return self.state.stance

    def see_nothing(self):
        self._look(Online(None, None, server_open=False))
        return self.state.stance

    def _look(self, online):
        self.state = arrivals.step(self.state, online, self.now)
        self.now += 1.0


@pytest.fixture
def settled():
    watched = Watched()
    assert watched.see({OLD}, for_s=SETTLE_S + 2) is Stance.OPEN
    return watched


def test_nothing_is_open_before_anyone_has_looked():
    assert Arrivals().stance is Stance.HELD
    assert Watched().see({OLD}) is Stance.HELD


def test_a_gpu_without_online_work_opens_too():
    assert Watched().see(set(), for_s=SETTLE_S + 2) is Stance.OPEN


def test_a_start_holds_offline_until_the_new_instance_is_a_healthy_client(settled):
    assert settled.see({OLD, NEW}, clients={OLD}, for_s=30) is Stance.HELD
    assert "PID 2" in settled.state.why
    assert settled.see({OLD, NEW}) is Stance.HELD
    assert settled.see({OLD, NEW}, for_s=SETTLE_S + 1) is Stance.OPEN
    assert settled.state.why == ""


def test_a_new_client_holds_for_a_moment_even_if_it_was_never_seen_outside(settled):
    assert settled.see({OLD, NEW}) is Stance.HELD
    assert settled.see({OLD, NEW}, for_s=SETTLE_S + 1) is Stance.OPEN


def test_an_exit_holds_nobody(settled):
    assert settled.see(set()) is Stance.OPEN


def test_a_rolling_update_is_a_start_and_an_exit(settled):
    settled.see({OLD, NEW}, clients={OLD}, for_s=10)
    assert settled.see({NEW}) is Stance.HELD
    assert settled.see({NEW}, for_s=SETTLE_S + 1) is Stance.OPEN


def test_a_process_that_never_joins_closes_the_gpu_and_its_end_opens_it_again(settled):
    assert settled.see({OLD, NEW}, clients={OLD}, for_s=JOIN_S) is Stance.HELD
    assert settled.see({OLD, NEW}, clients={OLD}, for_s=2) is Stance.CLOSED
    assert settled.see({OLD}) is Stance.HELD
    assert settled.see({OLD}, for_s=SETTLE_S + 1) is Stance.OPEN


def test_a_server_that_is_not_ready_holds_and_closes_nothing(settled):
    assert settled.see({OLD}, for_s=JOIN_S * 2, server_open=False) is Stance.HELD
    assert settled.see({OLD}, for_s=SETTLE_S + 2) is Stance.OPEN


def test_blindness_does_not_give_a_stranger_more_time(settled):
    settled.see({OLD, NEW}, clients={OLD}, for_s=JOIN_S / 2)
    settled.see_nothing()
    assert settled.see({OLD, NEW}, clients={OLD}, for_s=JOIN_S / 2 + 2) is Stance.CLOSED


def test_after_a_restart_of_the_server_everyone_proves_itself_anew(settled):
    settled.state = arrivals.forget(settled.state)
    assert settled.see({OLD}) is Stance.HELD


def test_the_table_has_an_answer_to_everything():
    assert set(STANCES) == {(stance, seen) for stance in Stance for seen in Seen}


PIDS = st.frozensets(st.integers(1, 3))
LOOKS = st.builds(Online, st.none() | PIDS, st.none() | PIDS, st.booleans())


@given(st.lists(st.tuples(LOOKS, st.floats(0.0, 200.0))))
def test_never_open_while_someone_is_outside_or_nobody_can_say(looks):
    state, now = Arrivals(), 0.0
    for online, passed_s in looks:
        now += passed_s
        state = arrivals.step(state, online, now)
        if arrivals.look(state, online) in (Seen.OUTSIDE, Seen.UNREADY):
            assert state.stance is not Stance.OPEN
