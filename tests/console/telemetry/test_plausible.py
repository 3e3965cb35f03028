from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.wire.limits import MAX_GPUS_PER_NODE
from agents.wire.messages import GpuSample
from agents.wire.names import SIGNALS
from console.telemetry import plausible
from console.telemetry.latest import COLUMN
from tests.console.telemetry.fleet import NOW, sample

ROWS = {0: 7, 1: 3}


def value(sampled: plausible.Sampled, name: str) -> float:
    return float(sampled.values[0, COLUMN[name]])


def test_a_true_sample_passes_whole():
    sampled = plausible.sift([sample(1, sm_activity=33.0)], ROWS)
    assert sampled.rows.tolist() == [3]
    assert value(sampled, "sm_activity") == 33.0
    assert not sampled.refused


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("sm_activity", 101.0), ("sm_activity", -1.0), ("temperature", 1e9),
        ("memory", float("inf")), ("online_p99", -5.0), ("duty_percent", 400.0),
        ("nearest_signal", 99), ("online_processes", -1),
    ],
)  # fmt: skip
def test_a_lie_counts_as_missing_and_is_counted(name, wrong):
    sampled = plausible.sift([sample(0, **{name: wrong})], ROWS)
    assert np.isnan(value(sampled, name))
    assert sampled.refused == {"telemetry: value out of bounds": 1}


def test_missing_stays_missing_and_is_no_lie():
    sampled = plausible.sift([sample(0, sm_activity=None)], ROWS)
    assert np.isnan(value(sampled, "sm_activity"))
    assert not sampled.refused


def test_a_gpu_of_another_node_is_refused():
    sampled = plausible.sift([sample(5), sample(0)], ROWS)
    assert sampled.rows.tolist() == [7]
    assert sampled.refused == {"telemetry: GPU not in this node's inventory": 1}


def test_an_unknown_state_is_refused():
    strange = GpuSample(0, 99, (None,) * len(SIGNALS), ())
    assert plausible.sift([strange], ROWS).refused == {"telemetry: unknown state": 1}


def test_more_gpus_than_a_node_may_have_are_refused_together():
    sampled = plausible.sift([sample(0)] * (MAX_GPUS_PER_NODE + 1), ROWS)
    assert len(sampled.rows) == 0
    assert sum(sampled.refused.values()) == 1


@pytest.mark.parametrize("count", [0, 3, len(SIGNALS) + 4])
def test_an_agent_of_another_version_may_know_fewer_or_more_signals(count):
    other = GpuSample(0, 1, (50.0,) * count, ())
    sampled = plausible.sift([other], ROWS)
    assert sampled.values.shape == (1, len(COLUMN))
    assert np.isnan(value(sampled, "headroom_percent"))


@given(st.lists(st.one_of(st.none(), st.floats()), max_size=20))
def test_no_values_at_all_make_it_fail(values):
    sampled = plausible.sift([GpuSample(0, 1, tuple(values), ())], ROWS)
    assert np.isfinite(sampled.values[~np.isnan(sampled.values)]).all()


@pytest.mark.parametrize(("skew_s", "own"), [(1.9, True), (-1.9, True), (2.1, False)])
def test_the_agents_clock_counts_while_it_agrees_with_ours(skew_s, own):
    assert (plausible.sample_time(NOW + skew_s, NOW) == NOW + skew_s) is own


def test_a_clock_that_is_no_number_is_ours():
    assert plausible.sample_time(float("nan"), NOW) == NOW
