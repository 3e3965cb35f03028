"""What the guard of one GPU makes of what its sources show, before anything is decided."""

from __future__ import annotations

import pytest

from agents.collectors.base import SET_BY_HAND, GpuReading, Origin
from agents.guard import Gpu, Guard
from agents.sysmonitor.monitor import ActionKind, Facts, Monitor
from agents.wire.messages import GpuInventory
from agents.wire.names import SIGNALS, GpuState
from agents.wire.names import Origin as Reason
from tests.agents.sysmonitor.cast import FULL_CARD, GPU, POLICY, SHARED, SLO_MS, values

FULL = values(memory=FULL_CARD)


@pytest.fixture
def guard():
    guard = Guard(Gpu(GpuInventory(0, "GPU-0", "A100", GPU.memory_bytes), GPU), Monitor())
    guard.follow(None, POLICY, SLO_MS)
    for second in range(3):
        guard.take(GpuReading(0, values()), second)
        guard.close_second()
        guard.wire(SHARED, second)
    assert guard.state is GpuState.HEALTHY
    return guard


def evictions(guard, sample, now, read_at=None):
    """Of one local sample."""
    origins = () if read_at is None else (Origin("nvml", read_at),) * len(SIGNALS)
    guard.take(GpuReading(0, sample, origins=origins), now)
    step = guard.local(SHARED, now)
    return [action.origin for action in step.actions if action.kind is ActionKind.EVICT]


def test_a_sample_is_judged_once(guard):
    assert evictions(guard, FULL, 10.0) == []
    assert guard.held
    for now in (10.2, 10.4):
        assert guard.local(SHARED, now).actions == ()


def test_memory_that_a_late_source_shows_again_is_no_second_sample(guard):
    assert evictions(guard, FULL, 10.0, read_at=10.0) == []
    assert evictions(guard, FULL, 10.2, read_at=10.0) == []
    assert evictions(guard, FULL, 10.4, read_at=10.4) == [Reason.EMERGENCY]


@pytest.mark.parametrize("unknown", [None, float("nan"), -1.0, 4_294_967_295.0])
def test_online_activity_that_goes_missing_is_unknown_and_not_what_it_was(guard, unknown):
    guard.take(GpuReading(0, values(), sm_online_percent=30.0), 10.0)
    assert guard.online_sm_percent == 30.0
    guard.take(GpuReading(0, values(), sm_online_percent=unknown), 10.2)
    assert guard.online_sm_percent is None


def test_online_activity_of_a_second_without_a_sample_is_unknown(guard):
    guard.take(GpuReading(0, values(), sm_online_percent=30.0), 10.0)
    guard.close_second()
    guard.close_second()
    assert guard.online_sm_percent is None


@pytest.mark.parametrize(
    ("told", "by"),
    [
        (None, None),
        ((), ""),
        ((SET_BY_HAND,), ""),
        (("power cap", SET_BY_HAND, "power brake"), "power cap, power brake"),
    ],
)
def test_clocks_that_a_person_has_set_are_not_throttled(guard, told, by):
    guard.take(GpuReading(0, values(), throttled=told), 10.0)
    assert guard.throttled_by == by


def test_the_same_orders_again_do_not_start_a_dwell_anew(guard):
    guard.take(GpuReading(0, values(online_p99=1.2 * SLO_MS)), 10.0)
    guard.close_second()
    guard.wire(SHARED, 3.0)
    before = guard.monitor
    guard.follow(None, POLICY, SLO_MS)
    assert guard.monitor is before
    guard.follow(None, POLICY, 2 * SLO_MS)
    assert guard.monitor is not before


def test_a_gpu_without_a_policy_keeps_its_state(guard):
    guard.follow(None, None, None)
    guard.take(GpuReading(0, FULL), 10.0)
    assert guard.local(Facts(), 10.0).monitor is guard.monitor
    assert guard.state is GpuState.HEALTHY
