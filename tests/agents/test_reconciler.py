from __future__ import annotations

import pytest

from agents.reconciler import (
    Decline,
    Forget,
    GpuFloor,
    Known,
    Life,
    Situation,
    Start,
    Stop,
    plan,
)
from agents.wire.names import EndReason, GpuState, Origin, SharingMode
from tests.agents.cast import EVICTION_ID, PLACEMENT_ID, STOP, desired, placement

OTHER_ID = "01920000-0000-7000-8000-000000000002"
OPEN = GpuFloor(GpuState.HEALTHY, SharingMode.ENFORCE)


def situation(state, *known, lease_holds=True, floor=OPEN):
    return Situation(state, lease_holds, {0: floor, 1: OPEN}, known)


def only_stop(situation):
    """The plan, when it is one stop and nothing else."""
    (stop,) = plan(situation)
    assert isinstance(stop, Stop)
    return stop


def known(life=Life.LIVE, **changes):
    return Known(PLACEMENT_ID, 0, life, **changes)


def test_what_is_desired_and_unknown_is_started():
    assert plan(situation(desired(placement()))) == (Start(placement()),)


@pytest.mark.parametrize("life", list(Life))
def test_what_is_known_is_never_started_again(life):
    actions = plan(situation(desired(placement()), known(life)))
    assert not any(isinstance(action, Start) for action in actions)


@pytest.mark.parametrize(
    "floor",
    [
        GpuFloor(GpuState.UNHEALTHY, SharingMode.ENFORCE),
        GpuFloor(GpuState.INIT, SharingMode.ENFORCE),
        GpuFloor(GpuState.DISABLED, SharingMode.ENFORCE),
        GpuFloor(GpuState.HEALTHY, SharingMode.SHADOW),
        GpuFloor(GpuState.HEALTHY, SharingMode.OBSERVE),
        GpuFloor(GpuState.HEALTHY, SharingMode.OFF),
        GpuFloor(GpuState.HEALTHY, SharingMode.ENFORCE, switched_off=True),
        GpuFloor(GpuState.HEALTHY, SharingMode.ENFORCE, vacant=False),
        GpuFloor(GpuState.HEALTHY, SharingMode.ENFORCE, shareable=False),
        GpuFloor(GpuState.HEALTHY, SharingMode.ENFORCE, calm=False),
    ],
)
def test_nothing_starts_on_a_gpu_that_takes_no_work(floor):
    assert plan(situation(desired(placement()), floor=floor)) == ()


def test_nothing_starts_without_a_lease_or_on_a_cordoned_node():
    assert plan(situation(desired(placement()), lease_holds=False)) == ()
    assert plan(situation(desired(placement(), cordoned=True))) == ()


def test_one_gpu_takes_one_guest_at_a_time():
    state = desired(placement(), placement(placement_id=OTHER_ID))
    assert plan(situation(state)) == (Start(placement()),)


def test_a_stop_is_carried_out_once():
    state = desired(placement(stop=STOP))
    stop = Stop(PLACEMENT_ID, STOP.reason, EndReason.EVICTED, Origin.MOVE, EVICTION_ID, 5.0)
    assert plan(situation(state, known())) == (stop,)
    assert plan(situation(state, known(Life.STOPPING))) == ()


def test_a_job_on_its_way_up_is_stopped_only_once_it_is_up():
    assert plan(situation(desired(placement(stop=STOP)), known(Life.STARTING))) == ()


def test_told_to_stop_before_it_started_it_never_will():
    state = desired(placement(stop=STOP))
    assert plan(situation(state)) == (Decline(placement(stop=STOP)),)


def test_without_a_lease_every_job_is_stopped():
    stop = only_stop(situation(desired(placement()), known(), lease_holds=False))
    assert stop.end_reason is EndReason.LEASE_EXPIRED
    assert stop.eviction_id is None


def test_the_consoles_stop_comes_before_reasons_of_the_nodes_own():
    state = desired(placement(stop=STOP))
    stop = only_stop(situation(state, known(), lease_holds=False))
    assert stop.eviction_id == EVICTION_ID


def test_a_gpu_switched_off_by_hand_is_emptied():
    floor = GpuFloor(GpuState.HEALTHY, SharingMode.OFF, switched_off=True)
    stop = only_stop(situation(desired(placement()), known(), floor=floor))
    assert "switched off" in stop.why


def test_a_job_nobody_waits_for_is_stopped_and_counted_as_lost():
    stop = only_stop(situation(desired(placement()), known(unattended=True)))
    assert stop.end_reason is EndReason.LOST


def test_a_job_the_console_no_longer_names_is_stopped():
    stop = only_stop(situation(desired(), known()))
    assert stop.end_reason is EndReason.EVICTED


def test_a_lower_mode_alone_stops_nothing():
    floor = GpuFloor(GpuState.HEALTHY, SharingMode.OBSERVE)
    assert plan(situation(desired(placement()), known(), floor=floor)) == ()


def test_an_ended_id_is_kept_while_the_console_names_it():
    assert plan(situation(desired(placement()), known(Life.ENDED))) == ()
    assert plan(situation(desired(), known(Life.ENDED))) == (Forget(PLACEMENT_ID),)


def test_without_any_orders_nothing_is_forgotten():
    assert plan(situation(None, known(Life.ENDED))) == ()


def test_a_job_that_runs_without_limits_is_stopped_unless_the_policy_lets_it():
    escaped = known(unlimited="process 7 uses CUDA and never came under xCUDA")

    stop = only_stop(situation(desired(placement()), escaped))

    assert (stop.why, stop.end_reason) == (escaped.unlimited, EndReason.FAILED)
    lenient = GpuFloor(GpuState.HEALTHY, SharingMode.ENFORCE, allows_unlimited=True)
    assert plan(situation(desired(placement()), escaped, floor=lenient)) == ()
