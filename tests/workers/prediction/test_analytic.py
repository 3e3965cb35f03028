from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.prediction.analytic import Load, estimate

part = st.floats(0, 1)


def one(online: tuple[float, float, float], job: tuple[float, float, float], share: float):
    sides = [Load(*(np.array([value]) for value in side)) for side in (online, job)]
    found = estimate(sides[0], sides[1], np.array([share]))
    return float(found.throughput[0]), float(found.slowdown[0])


def test_a_job_beside_nobody_loses_only_the_time_that_it_may_not_launch():
    assert one((0, 0, 0), (0.9, 0.9, 0.9), 0.9) == (0.9, 1.0)


def test_two_that_fill_the_memory_bus_halve_each_other():
    assert one((0, 0, 1), (0.5, 0.5, 1), 1.0) == (0.5, 2.0)


def test_half_of_the_sms_that_it_needs_is_half_of_the_speed():
    assert one((0, 0, 0), (0.8, 0.8, 0), 0.4)[0] == pytest.approx(0.5 * 0.4)


@given(part, part, part, part, part, part, part)
def test_no_pair_is_faster_than_alone(a, b, c, d, e, f, share):
    throughput, slowdown = one((a, b, c), (d, e, f), share)
    assert 0 <= throughput <= 1
    assert 1 <= slowdown < math.inf


@given(part, part, part, part, part, part)
def test_a_larger_share_never_slows_the_job(a, b, c, d, e, share):
    less = one((a, b, c), (d, e, 0.5), share / 2)[0]
    assert one((a, b, c), (d, e, 0.5), share)[0] >= less - 1e-12


@given(part, part, part, part)
def test_more_online_traffic_never_helps_the_job(bandwidth, util, need, share):
    calm = one((0.2, util / 2, bandwidth / 2), (need, need, 0.7), share)[0]
    assert one((0.2, util, bandwidth), (need, need, 0.7), share)[0] <= calm + 1e-12


@pytest.mark.parametrize("bad", [math.nan, math.inf, -0.1])
def test_what_is_no_share_of_a_gpu_is_not_estimated(bad):
    with pytest.raises(ValueError, match=r"job\.bandwidth"):
        one((0, 0, 0), (0.5, 0.5, bad), 0.5)


def test_rows_and_columns_broadcast():
    online = Load(*(np.zeros((3, 1)) for _ in range(3)))
    job = Load(*(np.full((1, 2), 0.5) for _ in range(3)))
    assert estimate(online, job, np.full((3, 1), 0.5)).throughput.shape == (3, 2)
