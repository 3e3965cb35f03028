"""A neighbour's harm is told only at the same load, with its interval, or not at all."""

from __future__ import annotations

import random

from console.history.points import Band, Chart
from console.workloads.beside import of_chart
from console.workloads.load_bins import BLOCK_S, Minute, compare


def minutes(beside: bool, qps: float, p99_ms: float, blocks: int = 20, seed: int = 1):
    rng = random.Random(seed + beside)
    first = 1_000_000 * beside
    return [
        Minute(1, (first + block) * BLOCK_S, qps, p99_ms + rng.gauss(0, 1), beside)
        for block in range(blocks)
    ]


def test_harm_at_the_same_load_is_found_with_an_interval_that_holds_it():
    found = compare(minutes(True, 90, 34) + minutes(False, 90, 30)).difference
    assert found is not None
    assert found.is_clear
    assert found.low_ms < 4 < found.high_ms


def test_a_load_that_differs_is_no_harm():
    """Beside a guest only at the peak: nothing was compared, however far the means lie apart."""
    found = compare(minutes(True, 95, 40) + minutes(False, 15, 20))
    assert found.difference is None
    assert [(one.n_with, one.n_without) for one in found.bins] == [
        (0, 20), (0, 0), (0, 0), (0, 0), (20, 0),
    ]  # fmt: skip
    assert found.bins[1].with_ms is None


def test_minutes_in_a_row_are_one_observation():
    row = [Minute(1, second, 90.0, 30.0, False) for second in range(0, BLOCK_S, 60)]
    assert compare(row).bins[-1].n_without == 1


def test_no_difference_is_not_called_one():
    found = compare(minutes(True, 90, 30) + minutes(False, 90, 30)).difference
    assert found is not None
    assert not found.is_clear


def test_without_data_there_is_nothing_to_tell():
    assert compare([]).difference is None


def test_a_minute_with_a_gap_or_with_a_guest_for_part_of_it_is_left_out():
    guests = Band([0, 1, 0.5, None, 0], [0, 1, 0, None, 0], [0, 1, 1, None, 0])
    whole = Band([5, 5, 5, 5, None], [5] * 5, [5] * 5)
    series = {"online_p99": whole, "online_qps": whole, "offline_processes": guests}
    chart = Chart("1 min", 60, [0.0, 60.0, 120.0, 180.0, 240.0], series, [1] * 5, 1, [False] * 5)
    assert [(one.at, one.beside) for one in of_chart(1, chart)] == [(0, False), (60, True)]
