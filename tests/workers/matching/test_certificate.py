"""A gap of 0 is a proof; no assignment that is worse, and none that is illegal, gets one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.workers.matching.markets import random_market, random_price, solution
from tests.workers.matching.reference import markets, optimum
from workers.matching import certificate, solve
from workers.matching.market import MOST_WORTH, Market, Slots, Solution

seeds = st.integers(0, 2**32 - 1)


def random_assignment(rng, market) -> Solution:
    """A legal one: GPUs in an order of chance take a job of chance, or none."""
    left, x = market.slots.capacity.copy(), np.zeros(market.worth.shape, np.int64)
    for row in rng.permutation(np.repeat(np.arange(len(market.rows)), market.rows)):
        fits = np.flatnonzero((market.worth[row] > 0) & (left > 0))
        if len(fits) and rng.random() < 0.9:
            job_class = rng.choice(fits)
            left[job_class] -= 1
            x[row, job_class] += 1
    return solution(x)


@pytest.mark.thorough
@given(seeds)
def test_a_legal_assignment_has_a_gap_exactly_as_it_is_worse_than_the_best(seed):
    rng = np.random.default_rng(seed)
    market = random_market(rng, 4)
    proof = certificate.prove(market, random_assignment(rng, market))
    assert (proof.gap == 0) == (proof.value == optimum(market))
    assert proof.upper_bound >= optimum(market)


@pytest.mark.thorough
@given(markets())
def test_an_assignment_made_worse_is_never_proven(market):
    x = solve.assign(market).table(market)
    assume(x.any())
    x[tuple(np.argwhere(x)[0])] -= 1
    proof = certificate.prove(market, solution(x))
    assert proof.gap > 0


@given(markets(), seeds)
def test_the_bound_holds_for_any_prices(market, seed):
    price = random_price(np.random.default_rng(seed), market)
    assert certificate.bound(market, price) >= optimum(market)


@pytest.mark.parametrize(
    ("row", "job_class", "count", "why"),
    [
        ([0], [0], [2], "more GPUs or jobs"),
        ([0, 1], [1, 1], [1, 1], "more GPUs or jobs"),
        ([1], [0], [1], "may not be made"),
        ([2], [0], [1], "that there is not"),
        ([0], [-1], [1], "that there is not"),
        ([0], [0], [0], "that there is not"),
        ([0], [0, 1], [1], "not a list of pairs"),
    ],
)
def test_an_illegal_assignment_has_no_certificate(row, job_class, count, why):
    market = Market(np.array([[5, 5], [0, 5]]), np.array([1, 1]), Slots.plain(np.array([1, 1])))
    named = np.array(row), np.array(job_class), np.array(count)
    claimed = Solution(named[0], named[1], named[2], np.zeros(2, np.int64), "by hand")
    with pytest.raises(ValueError, match=why):
        certificate.prove(market, claimed)


def test_the_largest_worths_do_not_overflow():
    most = np.full((3, 2), MOST_WORTH)
    extra = np.full(2, MOST_WORTH)
    market = Market(most, np.ones(3, np.int64), Slots(np.ones(2, np.int64), extra))
    proof = certificate.prove(market, solve.assign(market))
    assert proof.value == proof.upper_bound == 4 * MOST_WORTH


@given(markets())
def test_the_lowest_price_is_what_one_more_job_would_add(market):
    lowest = certificate.prove(market, solve.assign(market)).lowest
    for job_class in range(len(market.slots.capacity)):
        more = one_more(market, job_class)
        assert optimum(more) - optimum(market) == max(0, int(lowest[job_class]))


def one_more(market, job_class) -> Market:
    """With a job more of the class, which has not waited at all."""
    slots = market.slots
    end = slots.offset[job_class + 1]
    capacity = slots.capacity.copy()
    capacity[job_class] += 1
    return Market(market.worth, market.rows, Slots(capacity, np.insert(slots.extra, end, 0)))
