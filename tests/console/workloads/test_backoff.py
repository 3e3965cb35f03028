"""The hold of a job that faulted doubles, is bounded, and is forgiven."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from console.workloads import backoff
from console.workloads.backoff import FIRST, FORGIVEN, MOST, Record

T = datetime(2026, 9, 1, 12, tzinfo=UTC)


def after(*seconds: float) -> Record:
    counted = None
    for at in seconds:
        counted = backoff.after_fault(counted, T + timedelta(seconds=at))
    assert counted is not None
    return counted


def test_each_fault_doubles_the_hold():
    holds = [after(*range(count)).hold for count in (1, 2, 3, 4)]
    assert holds == [FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST]


def test_a_job_is_held_from_its_last_fault_on():
    assert after(0, 100).held_until == T + timedelta(seconds=100) + 2 * FIRST


def test_a_fault_that_is_told_late_does_not_shorten_the_hold():
    assert after(100, 0).held_until == T + timedelta(seconds=100) + 2 * FIRST


def test_a_long_clean_run_is_a_clean_slate():
    counted = after(0, 1, 2)
    forgiven = counted.held_until + FORGIVEN
    assert backoff.after_fault(counted, forgiven - timedelta(seconds=1)).faults == 4
    assert backoff.after_fault(counted, forgiven).faults == 1


def test_docs_mps_md_says_how_long():
    page = " ".join((Path(__file__).parents[3] / "docs" / "mps.md").read_text().split())
    hour_s = 3600
    assert f"held by the console for {FIRST.total_seconds():g} s" in page
    assert f"{MOST.total_seconds() / hour_s:g} h at most" in page
    assert f"{FORGIVEN.total_seconds() / hour_s:g} h without one" in page


@given(st.integers(0, 10**9))
def test_the_hold_is_bounded_however_often_it_happens(faults):
    assert FIRST <= Record(faults, T).hold <= MOST
