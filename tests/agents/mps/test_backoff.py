from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agents.mps import backoff
from agents.mps.backoff import FIRST_S, FORGIVEN_S, MOST_S, Offence

HOUR_S = 3_600.0


def faults(*times):
    offence = None
    for at in times:
        offence = backoff.after_fault(offence, at)
    return offence


def test_each_fault_doubles_the_hold():
    holds = [faults(*range(count)).hold_s for count in (1, 2, 3, 4)]
    assert holds == [FIRST_S, 2 * FIRST_S, 4 * FIRST_S, 8 * FIRST_S]


def test_the_hold_is_bounded_however_often_it_happens():
    assert Offence(10**9, 0.0).hold_s == MOST_S


def test_a_job_is_held_until_its_time_is_over():
    offence = faults(100.0)
    assert backoff.held_s(offence, 100.0) == FIRST_S
    assert backoff.held_s(offence, 100.0 + FIRST_S) == 0.0
    assert backoff.held_s(None, 0.0) == 0.0


def test_a_long_clean_run_is_a_clean_slate():
    offence = faults(0.0, 1.0, 2.0)
    later = 2.0 + offence.hold_s + FORGIVEN_S
    assert backoff.after_fault(offence, later - 1).faults == 4
    assert backoff.after_fault(offence, later).faults == 1


@given(st.integers(1, 100), st.floats(-1e9, 1e9), st.floats(-1e9, 1e9))
def test_no_clock_makes_a_hold_longer_than_it_is(count, at, now):
    offence = Offence(count, at)
    assert 0.0 <= backoff.held_s(offence, now) <= offence.hold_s
