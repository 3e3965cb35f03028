from __future__ import annotations

from dataclasses import replace

import pytest

from agents.profiling import MOST_WINDOWS, NOT_BEGUN, Second, second, step
from agents.wire.messages import Measure
from agents.wire.names import SIGNALS, EventKind, Signal
from tests.agents.cast import PLACEMENT_ID, Stage, desired, placement

GIB = 1 << 30
WANTED = Measure(settle_s=2.0, window_s=4.0)
BUSY = Second(88.0, 52.0, 31.0, 30.0, 9 * GIB, 0.25, 1_000)


def measured(seconds, wanted=WANTED):
    """The first result, and the second at which it came; a second each."""
    under_way = NOT_BEGUN
    for now, one in enumerate(seconds):
        under_way, told = step(under_way, wanted, one, float(now))
        if told is not None:
            return now, told
    return None


def test_the_warm_up_counts_for_nothing():
    warming = replace(BUSY, sm_percent=3.0)
    now, told = measured([warming] * 2 + [BUSY] * 10)
    assert now == 6
    assert (told["sm_percent"], told["gpu_util_percent"]) == (52.0, 88.0)


def test_whoever_disturbs_makes_it_begin_anew():
    assert measured([BUSY] * 5 + [None] + [BUSY] * 6) is None
    assert measured([BUSY] * 5 + [None] + [BUSY] * 7)[0] == 12


def test_memory_is_the_most_that_was_held_and_launches_are_a_rate():
    seconds = [
        replace(BUSY, memory_bytes=n * GIB, launches=1_000 * n) for n in (0, 0, 1, 2, 9, 3, 4)
    ]
    _, told = measured(seconds)
    assert told["memory_bytes"] == 9 * GIB
    assert told["launches_per_s"] == pytest.approx(750)


def test_what_no_source_tells_is_none_and_not_zero():
    _, told = measured([Second(70.0)] * 7)
    assert {name for name, value in told.items() if value is None} == {
        "sm_percent",
        "occupancy_percent",
        "memory_bandwidth_percent",
        "memory_bytes",
        "step_s",
        "launches_per_s",
    }


def test_a_window_that_still_rises_is_not_taken():
    rising = [replace(BUSY, sm_percent=min(52.0, 10.0 * n)) for n in range(8)]
    now, told = measured(rising + [BUSY] * 10)
    assert now > 7
    assert told["sm_percent"] == 52.0


def test_a_job_that_never_settles_is_measured_by_its_busier_half():
    waves = [replace(BUSY, sm_percent=90.0 if n % 5 < 2 else 10.0) for n in range(60)]
    _, told = measured(waves, Measure(0.0, 4.0))
    assert told["sm_percent"] == 50.0
    assert MOST_WINDOWS == 3


@pytest.mark.parametrize("step_s", [float("nan"), float("inf"), -1.0, 0.0, 1e9])
def test_a_step_time_that_cannot_be_is_none(step_s):
    assert second((50.0,) * len(SIGNALS), None, step_s, None).step_s is None


# --- on a node ------------------------------------------------------------------------------


@pytest.fixture
def stage(tmp_path):
    made = Stage(tmp_path)
    yield made
    made.die()


def begin(stage, **wishes):
    """A job that is to be measured, on a GPU where nobody else is."""
    stage.sensors.online_processes = 0
    stage.sensors.values[Signal.GPU_UTIL] = 90.0
    stage.healthy()
    stage.order(desired(placement(measure=WANTED), generation=2, **wishes))


def profiles(stage):
    return stage.told(EventKind.JOB_PROFILED)


def test_a_job_alone_is_measured_once(stage):
    begin(stage)
    stage.run(30)
    (event,) = profiles(stage)
    assert (event.placement_id, event.gpu_index) == (PLACEMENT_ID, 0)
    assert event.data["sm_percent"] == 20.0
    assert event.data["samples"] >= 4


def test_nothing_is_measured_beside_somebody_else(stage):
    begin(stage)
    stage.sensors.online_processes = 1
    stage.run(30)
    assert profiles(stage) == []


def test_nothing_is_measured_where_nobody_can_tell_who_is_there(stage):
    begin(stage)
    stage.sensors.online_processes = None
    stage.run(30)
    assert profiles(stage) == []


def test_nothing_is_measured_that_was_not_asked_for(stage):
    stage.sensors.online_processes = 0
    stage.start()
    stage.run(30)
    assert profiles(stage) == []


def test_alone_it_runs_at_full_duty_and_beside_others_no_more(stage):
    begin(stage)
    stage.run(3)
    (guest,) = stage.node._guests
    assert guest.duty_percent == 100.0
    stage.sensors.online_processes = 1
    stage.run(1)
    assert guest.duty_percent < 100.0


def test_a_restarted_agent_begins_anew_and_tells_once(stage):
    from agents.actuators.base import Condition

    stage.jobs.after_adoption = Condition.ALIVE
    begin(stage)
    stage.run(4)
    stage.restart()
    stage.order(desired(placement(measure=WANTED), generation=3))
    stage.run(20)
    assert len(profiles(stage)) == 1
    stage.restart()
    stage.order(desired(placement(measure=WANTED), generation=4))
    stage.run(20)
    told = {event.event_id for event in profiles(stage)}
    assert len(told) == 1


def test_the_console_may_end_a_measurement(stage):
    begin(stage)
    stage.run(2)
    stage.order(desired(placement(), generation=3))
    stage.run(20)
    assert profiles(stage) == []
