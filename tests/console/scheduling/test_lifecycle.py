from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire.names import EndReason, PlacementState
from console.errors import IllegalTransition
from console.scheduling import lifecycle
from console.scheduling.lifecycle import JOB_TRANSITIONS, REPORTS, JobEvent
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
OVER = {"SUCCEEDED", "FAILED", "CANCELLED"}


def test_the_tables_name_the_states_of_the_models():
    named = {state for state, _ in JOB_TRANSITIONS} | set(JOB_TRANSITIONS.values())
    assert named == set(OfflineJob.State.values)
    assert {state.value for state in REPORTS} == {
        value for value, _ in Placement._meta.get_field("state").choices
    }


def test_a_job_that_is_over_stays_over():
    assert not {state for state, _ in JOB_TRANSITIONS} & OVER


def test_every_other_step_of_a_job_raises():
    unknown = [
        pair for pair in product(OfflineJob.State.values, JobEvent) if pair not in JOB_TRANSITIONS
    ]
    for state, event in unknown:
        with pytest.raises(IllegalTransition, match=state):
            lifecycle.next_job_state(state, event)


def test_a_status_never_ends_a_placement():
    assert all(PlacementState.ENDED not in after for after in REPORTS.values())


def test_a_stop_is_never_undone_by_a_late_status():
    assert lifecycle.after_report(PlacementState.STOPPING, PlacementState.RUNNING) == "STOPPING"


def test_a_node_that_comes_back_tells_what_still_runs():
    assert lifecycle.after_report(PlacementState.UNKNOWN, PlacementState.FROZEN) == "FROZEN"


@pytest.mark.parametrize(
    ("reason", "cancelled", "failures", "event"),
    [
        (EndReason.FINISHED, False, 0, JobEvent.FINISH),
        (EndReason.FINISHED, True, 0, JobEvent.FINISH),
        (EndReason.EVICTED, True, 0, JobEvent.CANCEL),
        (EndReason.EVICTED, False, 9, JobEvent.REQUEUE),
        (EndReason.LOST, False, 9, JobEvent.REQUEUE),
        (EndReason.FAILED, False, 3, JobEvent.REQUEUE),
        (EndReason.FAILED, False, 4, JobEvent.FAIL),
    ],
)
def test_how_a_job_goes_on(reason, cancelled, failures, event):
    found = lifecycle.job_event(reason, cancelled=cancelled, failures=failures, max_retries=3)
    assert found is event


def test_each_failure_waits_twice_as_long_up_to_an_hour():
    waits = [lifecycle.not_before(EndReason.FAILED, count, NOW) - NOW for count in (1, 2, 3, 20)]
    assert [wait.total_seconds() for wait in waits] == [30, 60, 120, 3_600]


def test_an_evicted_job_may_start_at_once():
    assert lifecycle.not_before(EndReason.EVICTED, 0, NOW) is None


def test_a_node_that_could_not_begin_is_not_asked_at_once():
    wait = lifecycle.not_before(EndReason.NEVER_STARTED, 0, NOW)
    assert wait is not None
    assert wait > NOW + timedelta(seconds=5)


amounts = st.none() | st.floats(0, 1_000)


@given(st.floats(0, 1_000), amounts, amounts)
def test_saved_work_never_shrinks_and_never_exceeds_the_job(before, done, lost):
    saved = lifecycle.saved_work_s(before, 1_000.0, done, lost)
    assert before <= saved <= 1_000


def test_work_whose_loss_nobody_knows_counts_as_lost():
    assert lifecycle.saved_work_s(100, 1_000, 400, None) == 100
