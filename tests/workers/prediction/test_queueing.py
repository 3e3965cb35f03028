from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from workers.prediction.queueing import slowdown, tail


def p99(slower: float, load: float) -> float:
    one = np.array([slower])
    return float(tail(one, one, one, np.array([load])).ratio[0])


def test_an_idle_service_is_slower_by_its_service_time_alone():
    assert p99(1.3, 0.0) == 1.3


def test_a_busy_one_queues():
    assert p99(1.25, 0.4) == 1.25 * 0.6 / 0.5


def test_one_that_cannot_keep_up_has_no_bound():
    assert p99(2.0, 0.5) == math.inf


def test_a_load_that_is_not_known_leaves_the_lower_end():
    ends = (np.array([value]) for value in (1.2, 1.1, 1.4, math.nan))
    found = tail(*ends)
    assert np.isnan(found.ratio[0])
    assert found.low[0] == 1.1


@given(st.floats(1.0, 1.4), st.floats(0.0, 0.7))
def test_the_slow_down_that_a_tail_tells_is_the_one_that_made_it(slower, load):
    again = slowdown(np.array([p99(slower, load)]), np.array([load]))
    assert math.isclose(again[0], slower, rel_tol=1e-6)
