from __future__ import annotations

import numpy as np

from workers.prediction.calibration import Calibration, calibrate


def restless(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and errors; the second half of the range errs four times as much."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, 2))
    return x, rng.standard_normal(n) * np.where(x[:, 0] > 0, 0.4, 0.1)


def calibrated(n: int = 800) -> Calibration:
    x, error = restless(n, 1)
    known = np.column_stack([np.abs(error), np.full(n, np.nan)])
    return calibrate(x, np.ones((n, 2)), known, np.arange(n), np.ones(n), x, 0.1)._replace(
        least=np.array([-9.0, -9.0]), most=np.array([9.0, 9.0])
    )


def width(of: Calibration, x: np.ndarray) -> np.ndarray:
    low, high = of.interval(np.zeros((len(x), 2)), x, x)
    return (high - low)[:, 0]


def test_intervals_hold_nine_times_in_ten():
    x, error = restless(4_000, 2)
    inside = np.abs(error) <= width(calibrated(), x) / 2
    assert 0.87 < inside.mean() < 0.93


def test_a_pair_seen_a_thousand_times_counts_once():
    x, error = restless(400, 1)
    calm = np.full(4_000, 1e-3)
    kind = np.concatenate([np.arange(400), np.full(len(calm), 400)])
    x, error = np.concatenate([x, np.zeros((len(calm), 2))]), np.concatenate([error, calm])
    known = np.abs(error)[:, np.newaxis]
    ends = np.array([-9.0]), np.array([9.0])
    mostly_one = calibrate(x, np.ones_like(known), known, kind, np.ones(len(x)), x[:9], 9.0)
    fresh, truth = restless(4_000, 2)
    low, high = mostly_one._replace(least=ends[0], most=ends[1]).interval(
        np.zeros((len(fresh), 1)), fresh, fresh
    )
    assert 0.86 < (np.abs(truth) <= (high - low)[:, 0] / 2).mean() < 0.94


def test_a_restless_workload_gets_a_wider_interval():
    calm, wild = width(calibrated(), np.array([[-0.9, 0.0], [0.9, 0.0]]))
    assert wild > 1.5 * calm


def test_an_interval_widens_the_farther_a_pair_is_from_all_that_was_learnt():
    near, far, farther = width(calibrated(), np.array([[0.0, 0.9], [0.0, 1.5], [0.0, 3.0]]))
    assert near < 0.8 * far < 0.5 * farther


def test_no_end_lies_beyond_all_that_was_observed():
    bound = calibrated()._replace(least=np.array([-0.1, -9.0]), most=np.array([0.05, 9.0]))
    low, high = bound.interval(np.zeros((1, 2)), np.zeros((1, 2)), np.zeros((1, 2)))
    assert (low[0, 0], high[0, 0]) == (-0.1, 0.05)


def test_an_estimate_beyond_all_that_was_observed_is_not_clipped():
    bound = calibrated()._replace(most=np.array([0.5, 9.0]))
    _, high = bound.interval(np.full((1, 2), 0.8), np.zeros((1, 2)), np.zeros((1, 2)))
    assert high[0, 0] == 0.8


def test_where_no_error_is_known_the_interval_has_no_end():
    low, high = calibrated()._replace(most=np.full(2, np.inf)).interval(*[np.zeros((1, 2))] * 3)
    assert (low[0, 1], high[0, 1]) == (-9.0, np.inf)
