from __future__ import annotations

import numpy as np

from workers.prediction import bilinear
from workers.prediction.bilinear import Sides

# Two numbers and two names of the row, one number and two names of the column.
SIDES = Sides(4, np.array([0, 1, 2, 2, 3, 4, 4]))


def features(n: int, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    names = [np.eye(2)[rng.integers(2, size=n)] for _ in range(2)]
    return np.column_stack(
        [rng.uniform(0, 0.5, (n, 2)), names[0], rng.uniform(0, 0.5, n), names[1]]
    )


def learnt(target: np.ndarray, penalty: float = 1e-6) -> bilinear.Bilinear:
    return bilinear.fit(features(len(target)), SIDES, target, np.ones(len(target)), penalty)


def test_what_two_sides_do_to_each_other_is_learnt():
    x = features(300)
    law = 0.2 + x[:, 0] - x[:, 2] + 3.0 * x[:, 1] * x[:, 4]
    fresh = features(50, seed=2)
    told = learnt(law[:, np.newaxis])(fresh)[:, 0]
    truth = 0.2 + fresh[:, 0] - fresh[:, 2] + 3.0 * fresh[:, 1] * fresh[:, 4]
    np.testing.assert_allclose(told, truth, atol=1e-4)


def test_names_have_no_products():
    cross = learnt(np.random.default_rng(3).standard_normal((300, 1))).cross[..., 0]
    assert (cross[2:] == 0.0).all()
    assert (cross[:, 1:] == 0.0).all()
    assert (cross[:2, 0] != 0.0).all()


def test_without_lift_it_says_the_same_of_all():
    said = learnt(np.random.default_rng(3).standard_normal((300, 1)))(features(9), 0.0)
    assert np.ptp(said) == 0.0


def test_its_factors_say_of_all_pairs_what_it_says_of_each():
    made, x = learnt(np.random.default_rng(3).standard_normal((300, 2))), features(6)
    left, right = made.factors(x[:, :4], x[:, 4:], np.array([1.0, 0.5]))
    said = np.diagonal(left @ right, axis1=1, axis2=2).T
    np.testing.assert_allclose(said, made(x, np.array([1.0, 0.5])), atol=1e-9)
