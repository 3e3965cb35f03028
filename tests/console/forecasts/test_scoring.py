"""Forecasts that were made are judged by what came."""

from __future__ import annotations

import numpy as np

from console.forecasts.scoring import LEAST, Score, scores
from console.forecasts.series import HORIZONS


def judged(came: list[float], made: float, high: float) -> list[Score]:
    shape = (len(came), len(HORIZONS))
    return scores(np.array(came), np.full(shape, made), np.full(shape, high))


def test_each_horizon_is_judged_by_the_bin_that_it_was_about():
    came = np.arange(30.0)
    middle = np.stack([came + h for h in HORIZONS], axis=1)
    found = scores(came, middle, middle - 0.5)
    assert [score.error_points for score in found] == [0, 0, 0, 0]
    assert [score.below for score in found] == [0, 0, 0, 0]
    assert [score.n for score in found] == [30 - h for h in HORIZONS]


def test_the_error_is_the_mean_distance_and_below_the_part_under_the_band():
    first = judged([40.0, 50.0] * 12, made=40.0, high=45.0)[0]
    assert first == Score(n=23, error_points=120 / 23, below=11 / 23)


def test_nothing_is_told_from_fewer_than_an_hour_of_forecasts():
    (first, *_) = judged([40.0] * LEAST, made=40.0, high=45.0)
    assert first == Score(n=LEAST - 1, error_points=None, below=None)


def test_what_was_not_measured_is_not_judged():
    (first, *_) = judged([40.0, np.nan] * LEAST, made=40.0, high=45.0)
    assert first.n == LEAST - 1
