from __future__ import annotations

import importlib
import importlib.util

import numpy as np
import pytest

from workers.prediction import kernel, likelihood
from workers.prediction.bilinear import Sides
from workers.prediction.kernel import Kernel, Likeness

ROWS, SIDES = 2, Sides(2, np.arange(4))
needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch: run `make ml`"
)


def features(n: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (n, 4))


def law(z: np.ndarray) -> np.ndarray:
    """Of the row's first feature and the column's first; the others tell nothing."""
    return np.sin(3.0 * z[:, 0]) * np.cos(3.0 * z[:, 2])


def fitted(like: Likeness, z: np.ndarray, points: np.ndarray) -> Kernel:
    pull = kernel.fit(like, ROWS, z, points, law(z), np.ones(len(z)))
    return Kernel(like.heights[np.newaxis], like.rates[np.newaxis], pull[np.newaxis])


def test_it_says_what_was_measured_and_nothing_far_from_it():
    z = features(60)
    learnt = fitted(Likeness(np.ones(3), np.ones(4), 1e-4), z, z)
    np.testing.assert_allclose(learnt(z, z, ROWS)[:, 0], law(z), atol=0.02)
    np.testing.assert_allclose(learnt(z + 50.0, z, ROWS), 0.0, atol=1e-9)


def test_through_all_points_it_is_the_exact_mean_of_the_process():
    z, fresh = features(40), features(9, seed=2)
    like = Likeness(np.array([0.3, 0.2, 1.0]), np.array([1.0, 0.1, 2.0, 0.1]), 0.05)
    k = kernel.alike(like.heights, like.rates, ROWS, z, z) + 0.05 * np.eye(40)
    across = kernel.alike(like.heights, like.rates, ROWS, fresh, z)
    exact = across @ np.linalg.solve(k, law(z))
    np.testing.assert_allclose(fitted(like, z, z)(fresh, z, ROWS)[:, 0], exact, atol=1e-3)


def test_a_pair_is_most_like_those_with_both_sides_like_its_own():
    z = np.array([[0.0, 0, 0, 0], [0.0, 0, 9, 9], [9.0, 9, 0, 0], [9.0, 9, 9, 9]])
    both, row, column, none = kernel.alike(np.array([1.0, 2.0, 4.0]), np.ones(4), ROWS, z, z)[0]
    assert (both, row, column, none) == pytest.approx((7.0, 1.0, 2.0, 0.0))


def test_the_slope_of_the_likelihood_is_its_slope():
    z, y = features(20), law(features(20))
    squares = [np.subtract.outer(one, one).ravel() ** 2 for one in z.T]
    asked = likelihood._Likelihood(np.array(squares[:2]), np.array(squares[2:]), y)
    at = asked.begin + 0.1 * np.arange(len(asked.begin))
    for one in np.eye(len(at)) * 1e-5:
        steep = (asked(at + one)[0] - asked(at - one)[0]) / 2e-5
        assert asked(at)[1] @ one / 1e-5 == pytest.approx(steep, rel=1e-4, abs=1e-6)


@needs_torch
def test_what_tells_nothing_makes_no_pairs_alike():
    z = features(120)
    found = likelihood.likeness(importlib.import_module("torch"), z, law(z), SIDES)
    assert found.rates[1] < 0.2 * found.rates[0]
    assert found.rates[3] < 0.2 * found.rates[2]
    fresh = features(50, seed=2)
    missed = fitted(found, z, z)(fresh, z, ROWS)[:, 0] - law(fresh)
    assert np.abs(missed).mean() < 0.1 * np.abs(law(fresh)).mean()


@needs_torch
def test_features_of_a_group_share_a_rate():
    z, sides = features(60), Sides(2, np.array([0, 1, 2, 2]))
    rates = likelihood.likeness(importlib.import_module("torch"), z, law(z), sides).rates
    assert rates[2] == rates[3]
    assert rates[0] != rates[1]
