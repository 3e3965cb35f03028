from __future__ import annotations

import csv
import math
import re

import pytest
from msgspec.structs import replace

from agents.sysmonitor.crossings import headroom
from agents.sysmonitor.monitor import Facts
from agents.sysmonitor.signals import (
    BOUNDS,
    POSITIONS,
    GpuFacts,
    plausible,
    reading,
    worst,
    xid_gravity,
)
from agents.wire.names import SIGNALS, Signal
from agents.wire.policy import aggressive, balanced, conservative, demo
from tests.agents.sysmonitor.cast import GPU, NOTHING, POLICY, SHARED, SLO_MS, seen, values

NONSENSE = {
    "a sentinel of 32 bits": (Signal.GPU_UTIL, 4_294_967_295.0),
    "a sentinel of 64 bits": (Signal.TEMPERATURE, 9_223_372_036_854_775_794.0),
    "utilisation in the hundred thousands": (Signal.GPU_UTIL, 686_103.0),
    "more than all": (Signal.SM_ACTIVITY, 100.5),
    "less than nothing": (Signal.POWER, -1.0),
    "not a number": (Signal.ONLINE_P99, math.nan),
    "without end": (Signal.ONLINE_P99, math.inf),
    "a clock that stands still": (Signal.SM_CLOCK, 0.0),
    "a card at freezing point": (Signal.TEMPERATURE, 0.0),
    "more memory than the card has": (Signal.MEMORY, float(90 << 30)),
    "a request answered before it came": (Signal.ONLINE_P99, 0.0),
}


@pytest.mark.parametrize(("signal", "value"), NONSENSE.values(), ids=NONSENSE)
def test_nonsense_is_a_missing_value(signal, value):
    assert plausible(values(**{signal: value}), GPU)[POSITIONS[signal]] is None


@pytest.mark.parametrize("signal", SIGNALS)
def test_both_bounds_are_plausible(signal):
    card = GpuFacts(memory_bytes=10**13)
    for bound in BOUNDS[signal]:
        assert (
            plausible(
                values(gpu_util=0.0)
                if signal is Signal.GPU_UTIL
                else values(gpu_util=1.0, **{signal: bound}),
                card,
            )[POSITIONS[signal]]
            is not None
        )


def test_a_quiet_sample_passes_whole():
    assert plausible(values(), GPU) == values()


def test_zero_is_a_value_and_none_is_none():
    assert plausible(values(gpu_util=0.0, sm_activity=0.0), GPU)[:2] == (0.0, 0.0)
    assert plausible(NOTHING, GPU) == NOTHING


def test_no_sm_active_while_kernels_run_is_a_broken_counter():
    assert plausible(values(gpu_util=99.0, sm_activity=0.0), GPU)[1] is None


def test_a_policy_reads_relative_units():
    sample = seen(memory=float(20 << 30), power=100.0, sm_clock=705.0, pcie_rx=3.15e9)
    assert sample.get(Signal.MEMORY) == pytest.approx(25.0)
    assert sample.get(Signal.POWER) == pytest.approx(25.0)
    assert sample.get(Signal.SM_CLOCK) == pytest.approx(50.0)
    assert sample.get(Signal.PCIE_RX) == pytest.approx(10.0)
    assert sample.get(Signal.ONLINE_P99) == pytest.approx(0.5)


def test_what_has_no_whole_is_missing():
    bare = GpuFacts(memory_bytes=80 << 30)
    sample = reading(values(), bare, None)
    for signal in (Signal.POWER, Signal.SM_CLOCK, Signal.PCIE_RX, Signal.ONLINE_P99):
        assert sample.get(signal) is None


def test_p99_cannot_be_missing_without_a_target_or_without_traffic():
    assert not reading(values(online_p99=None), GPU, None).could_have(Signal.ONLINE_P99)
    assert not seen(online_p99=None, online_qps=0.0).could_have(Signal.ONLINE_P99)
    assert seen(online_p99=None, online_qps=None).could_have(Signal.ONLINE_P99)


def test_the_low_clock_of_an_idle_card_is_no_throttling():
    sample = seen(gpu_util=2.0, sm_clock=210.0)
    assert sample.get(Signal.SM_CLOCK) is None
    assert not sample.could_have(Signal.SM_CLOCK)


def test_the_clock_of_a_card_that_nobody_knows_to_be_busy_is_not_judged():
    assert seen(gpu_util=None, sm_activity=None, sm_clock=210.0).get(Signal.SM_CLOCK) is None
    assert seen(gpu_util=None, sm_activity=3.0, sm_clock=210.0).get(Signal.SM_CLOCK) is None
    assert seen(gpu_util=None, sm_activity=70.0, sm_clock=705.0).get(Signal.SM_CLOCK) == 50.0


def test_the_worst_is_the_least_clock_and_the_most_of_all_else():
    low, high = values(sm_clock=900.0, online_p99=10.0), values(online_p99=70.0)
    found = worst([low, high, NOTHING])
    assert found[POSITIONS[Signal.SM_CLOCK]] == 900.0
    assert found[POSITIONS[Signal.ONLINE_P99]] == 70.0


def test_the_worst_clock_is_that_of_a_busy_moment():
    idle, busy = values(gpu_util=0.0, sm_clock=210.0), values(sm_clock=1_380.0)
    assert worst([idle, busy])[POSITIONS[Signal.SM_CLOCK]] == 1_380.0


def test_the_worst_xid_is_the_gravest_and_not_the_highest():
    assert worst([values(xid=48.0), values(xid=94.0)])[POSITIONS[Signal.XID]] == 48.0
    assert [xid_gravity(code) for code in (0, 45, 31, 79)] == [0, 0, 1, 2]


def test_a_second_without_samples_is_all_missing():
    assert worst([]) == NOTHING


def test_headroom_names_the_nearest_limit():
    percent, signal = headroom(seen(memory=0.76 * (80 << 30)), POLICY, SHARED)
    assert signal is Signal.MEMORY
    assert percent == pytest.approx(20.0)


def test_headroom_is_nothing_at_a_limit_and_beyond():
    assert headroom(seen(online_p99=1.5 * SLO_MS), POLICY, SHARED)[0] == 0.0
    assert headroom(seen(online_p99=9.0 * SLO_MS), POLICY, SHARED)[0] == 0.0


def test_headroom_of_a_throttled_clock_shrinks():
    full, slow = (headroom(seen(sm_clock=mhz), POLICY, SHARED) for mhz in (1_400.0, 930.0))
    assert slow[1] is Signal.SM_CLOCK
    assert slow[0] == pytest.approx(100 * (930 / 14.1 - 65) / 35)
    assert full[1] is not Signal.SM_CLOCK


def test_headroom_is_unknown_when_nothing_is_read():
    assert headroom(reading(NOTHING, GPU, SLO_MS), POLICY, SHARED) == (None, None)


def test_headroom_follows_the_reserve_where_the_policy_names_no_memory():
    bare = replace(POLICY, thresholds={})
    assert headroom(seen(memory=0.95 * (80 << 30)), bare, SHARED)[1] is Signal.MEMORY


def test_headroom_takes_no_account_of_a_limit_that_does_not_hold():
    alone = Facts(offline_present=True, online_present=False)
    assert headroom(seen(sm_activity=99.0), POLICY, SHARED)[0] == 0.0
    assert headroom(seen(sm_activity=99.0), POLICY, alone)[1] is not Signal.SM_ACTIVITY
    assert headroom(seen(online_qps=0.0, online_p99=90.0), POLICY, SHARED)[0] > 0.0


@pytest.mark.parametrize("preset", [conservative, balanced, aggressive, demo])
def test_a_preset_is_consistent(preset):
    policy = preset(1, 1)
    for signal, threshold in policy.thresholds.items():
        falling = signal is Signal.SM_CLOCK
        assert (threshold.lower > threshold.upper) is falling
    assert policy.thresholds[Signal.MEMORY].upper == 100.0 - policy.memory_reserve_percent
    assert policy.duty_floor_percent < policy.duty_unhealthy_percent < policy.duty_max_percent


def test_values_that_real_drivers_printed_are_taken_without_a_fault(data_folder):
    rows = (data_folder / "telemetry" / "hostile_values_public.tsv").read_text()
    found = [
        float(number)
        for row in csv.DictReader(rows.splitlines(), delimiter="\t")
        for number in re.findall(r"-?\d+(?:\.\d+)?", row["raw_value_or_line"])
    ]
    assert found
    for number in found:
        sane = plausible((number,) * len(SIGNALS), GPU)
        assert all(value is None or value == number for value in sane)
