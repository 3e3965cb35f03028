from __future__ import annotations

import numpy as np
import pytest

from console.telemetry.history import BUDGET_BYTES, SERIES, SPAN_S, History
from tests.console.telemetry.fleet import NOW, grid


def recorded(seconds: int, **values: float | None) -> History:
    history = History(np.array([11], np.uint32))
    for second in range(seconds):
        history.record(grid({"sm_activity": second % 100, **values}, at=NOW + second), NOW + second)
    return history


def test_a_series_is_ascending_and_one_value_a_second():
    series = recorded(5).series(11)
    assert series.times == [NOW + second for second in range(5)]
    assert series.values["sm_activity"] == [0, 1, 2, 3, 4]


def test_ten_minutes_are_kept_and_no_more():
    series = recorded(SPAN_S + 10).series(11)
    assert len(series.times) == SPAN_S
    assert series.times[0] == NOW + 10
    assert series.times == sorted(series.times)


def test_a_missing_signal_is_a_gap_not_a_zero():
    series = recorded(3, online_p99=None).series(11)
    assert series.values["online_p99"] == [None, None, None]


def test_a_silent_gpu_leaves_a_gap():
    history = recorded(2)
    history.record(grid({}, at=NOW), NOW + 60)
    assert history.series(11).values["sm_activity"] == [0, 1, None]


def test_two_ticks_in_one_second_count_once():
    history = recorded(1)
    history.record(grid({}), NOW + 0.2)
    assert len(history.series(11).times) == 1


def test_memory_is_percent_of_the_card():
    assert recorded(1).series(11).values["memory_percent"] == [50.0]


def test_an_unknown_gpu_has_no_past():
    assert recorded(3).series(99).times == []


def test_the_past_survives_new_gpus():
    grown = recorded(3).adopt(np.array([11, 12], np.uint32))
    assert grown.series(11).values["sm_activity"] == [0, 1, 2]
    assert grown.series(12).values["sm_activity"] == [None, None, None]


@pytest.mark.parametrize("gpus", [0, 1, 4_000, 20_000, 100_000])
def test_memory_is_bounded_whatever_the_fleet(gpus):
    history = History(np.arange(gpus, dtype=np.uint32))
    slots = SPAN_S // history.period_s
    assert slots * gpus * len(SERIES) * 2 <= BUDGET_BYTES
