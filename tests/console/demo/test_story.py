from __future__ import annotations

import pytest

from console.demo.story import Scene, Step, due


def scene(**facts: object) -> Scene:
    usual = {
        "seen_s": 60.0,
        "sharing_was_on": True,
        "guests_running": 20,
        "queued": 100,
        "spike_s": None,
    }
    return Scene(**usual | facts)


def test_nothing_happens_before_somebody_looks() -> None:
    assert due(scene(seen_s=None, queued=0, sharing_was_on=False)) == ()


@pytest.mark.parametrize(("seen_s", "steps"), [(39.0, ()), (40.0, (Step.TURN_SHARING_ON,))])
def test_sharing_turns_on_by_itself_after_forty_seconds(
    seen_s: float, steps: tuple[Step, ...]
) -> None:
    assert due(scene(seen_s=seen_s, sharing_was_on=False)) == steps


def test_sharing_is_not_turned_on_again_after_a_person_stopped_it() -> None:
    assert Step.TURN_SHARING_ON not in due(scene(seen_s=300.0, sharing_was_on=True))


def test_the_spike_waits_for_guests_to_be_running() -> None:
    assert due(scene(seen_s=90.0, guests_running=0)) == ()
    assert due(scene(seen_s=90.0, guests_running=1)) == (Step.TRAFFIC_SPIKE,)


def test_one_spike_is_over_before_the_next() -> None:
    assert due(scene(seen_s=120.0, spike_s=30.0)) == ()
    assert due(scene(seen_s=400.0, spike_s=240.0)) == (Step.TRAFFIC_SPIKE,)


def test_the_queue_is_refilled_before_it_runs_dry() -> None:
    assert due(scene(queued=39)) == (Step.REFILL_QUEUE,)


def test_a_gpu_that_could_not_share_at_first_does_so_once_it_can() -> None:
    assert due(scene(latecomers=True)) == (Step.SHARE_LATECOMERS,)


def test_real_processes_are_refilled_while_simulated_jobs_still_wait() -> None:
    assert due(scene(processes_low=True)) == (Step.REFILL_PROCESSES,)
    assert due(scene(processes_low=True, sharing_was_on=False)) == (Step.TURN_SHARING_ON,)
