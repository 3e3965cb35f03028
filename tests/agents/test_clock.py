"""The clock on the wall may be set to anything: only the times that are told follow it."""

from __future__ import annotations

import pytest

from agents.wire.names import EventKind, PlacementState, Signal
from tests.agents.cast import PLACEMENT_ID, Stage, desired, placement

DAY_S = 86_400.0


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    yield stage
    stage.die()


@pytest.mark.parametrize("jump_s", [-365 * DAY_S, -1.0, 365 * DAY_S])
def test_neither_lease_nor_job_nor_the_order_of_events_follows_it(stage, jump_s):
    stage.healthy()
    stage.order(desired(placement(), generation=2, lease_s=60.0))
    stage.run(1)
    lease_s, number = stage.status.lease_left_s, stage.telemetry.number
    stage.wall_s += jump_s
    stage.run(5)
    assert stage.job().state is PlacementState.RUNNING
    assert stage.status.lease_left_s == pytest.approx(lease_s - 5, abs=1.1)
    assert number < stage.telemetry.number <= number + 6
    stage.sensors.values[Signal.SM_ACTIVITY] = 97.0
    stage.run(2)
    (frozen,) = stage.told(EventKind.FROZEN)
    assert frozen.seq > stage.told(EventKind.PLACEMENT_STARTED)[0].seq
    assert frozen.at == stage.wall_s


def test_a_node_that_begins_again_with_its_clock_set_back_goes_on_where_it_was(stage):
    stage.start()
    before = [event.seq for event in stage.events]
    stage.wall_s -= DAY_S
    stage.restart()
    stage.run(1)
    assert [event.seq for event in stage.events][: len(before)] == before
    assert len(stage.events) > len(before)  # the job that is gone
    assert stage.job().placement_id == PLACEMENT_ID


def test_a_lease_that_is_renewed_once_a_minute_never_runs_out(stage):
    stage.healthy()
    stage.order(desired(placement(), generation=2, lease_s=70.0))
    for _ in range(3):
        stage.run(60)
        stage.order(desired(placement(), generation=2, lease_s=70.0))
    assert stage.job().state is PlacementState.RUNNING
    stage.run(75)
    assert stage.job().end_reason == "lease_expired"
    assert "kill" not in stage.jobs.asked
