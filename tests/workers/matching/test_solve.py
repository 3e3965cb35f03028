"""The assignment is the best there is, and the certificate says so without trusting the solver."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from workers.matching import certificate, paths, solve


@st.composite
def problems(draw, most: int = 4, ties: int = 6):
    """Rows, classes with counts, small whole worths so that ties are common; 0: not allowed."""
    n_rows, n_classes = draw(st.integers(1, most)), draw(st.integers(1, most))
    counts = st.integers(0, 3)
    worth = draw(
        st.lists(st.integers(0, ties), min_size=n_rows * n_classes, max_size=n_rows * n_classes)
    )
    rows = draw(st.lists(counts, min_size=n_rows, max_size=n_rows))
    capacity = draw(st.lists(counts, min_size=n_classes, max_size=n_classes))
    return (
        np.array(worth, np.int64).reshape(n_rows, n_classes),
        np.array(rows, np.int64),
        np.array(capacity, np.int64),
    )


def optimum(worth, rows, capacity) -> int:
    """By the reference: every GPU and every job by itself."""
    dense = worth[np.repeat(np.arange(len(rows)), rows)]
    dense = dense[:, np.repeat(np.arange(len(capacity)), capacity)]
    gpus, jobs = linear_sum_assignment(dense, maximize=True)
    return int(dense[gpus, jobs].sum())


def brute_force(worth, rows, capacity) -> int:
    """By trying everything."""
    free = [range(min(r, c) + 1) for r, c in product(rows, capacity)]
    best = 0
    for amounts in product(*free):
        x = np.array(amounts).reshape(worth.shape)
        fits = (x.sum(axis=1) <= rows).all() and (x.sum(axis=0) <= capacity).all()
        if fits and not x[worth == 0].any():
            best = max(best, int((x * worth).sum()))
    return best


@given(problems(most=2))
def test_the_optimum_is_what_trying_everything_finds(problem):
    x = solve.assign(*problem)
    assert certificate.value(problem[0], x) == brute_force(*problem)


@pytest.mark.parametrize("route", [solve.hungarian, paths.assign])
@given(problem=problems())
def test_both_routes_find_the_optimum_and_prove_it(route, problem):
    worth, rows, capacity = problem
    x = route(worth, rows, capacity)
    price = certificate.prices(worth, x, rows, capacity)
    assert certificate.value(worth, x) == optimum(*problem)
    assert certificate.bound(worth, rows, capacity, price) == optimum(*problem)


@given(problems())
def test_a_worse_assignment_is_never_proven(problem):
    worth, rows, capacity = problem
    x = solve.assign(*problem)
    made = np.argwhere(x > 0)
    if not len(made):
        return
    x[tuple(made[0])] -= 1
    price = certificate.prices(worth, x, rows, capacity)
    assert certificate.bound(worth, rows, capacity, price) > certificate.value(worth, x)


@given(problems(), st.lists(st.integers(0, 9), min_size=4, max_size=4))
def test_the_bound_holds_for_any_prices(problem, prices):
    worth, rows, capacity = problem
    price = np.array(prices, np.int64)[: len(capacity)]
    assert certificate.bound(worth, rows, capacity, price) >= optimum(*problem)


def test_an_assignment_of_more_than_there_is_has_no_certificate():
    worth, one = np.array([[5]]), np.array([1])
    with pytest.raises(ValueError, match="more GPUs or jobs"):
        certificate.prices(worth, np.array([[2]]), one, one)


def lifelike(rows: int, classes: int):
    """Smooth weights, all GPUs rank the jobs almost alike: the hard case for every solver."""
    rng = np.random.default_rng(3)
    load, need = rng.beta(1.6, 3, rows), rng.beta(5, 1.6, classes)
    worth = np.rint(1e6 * np.minimum(1, (1 - load)[:, None] / need) / (1 + load[:, None] * need))
    worth = worth.astype(np.int64) * (rng.random((rows, classes)) > 0.35)
    return worth, rng.integers(1, 4, rows), rng.integers(0, 2 * rows // classes, classes)


def test_a_lifelike_problem_is_solved_on_classes_and_proven():
    worth, rows, capacity = lifelike(150, 20)
    x = paths.assign(worth, rows, capacity)
    price = certificate.prices(worth, x, rows, capacity)
    assert certificate.value(worth, x) == certificate.bound(worth, rows, capacity, price)
    assert certificate.value(worth, x) == optimum(worth, rows, capacity)


@pytest.mark.parametrize("smallest", [1, 2, 8])
@given(problem=problems(most=6, ties=30))
def test_prices_of_a_part_never_cost_the_optimum(smallest, problem):
    """They are only where the search begins, however little the part is like the whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(paths, "SMALLEST", smallest)
        x = paths.assign(*problem)
    assert certificate.value(problem[0], x) == optimum(*problem)
