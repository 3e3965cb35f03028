"""The assignment is the best there is, and the certificate says so without trusting the solver."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.matching.markets import lifelike, random_market, random_price
from tests.workers.matching.reference import brute_force, markets, optimum
from workers.matching import certificate, solve
from workers.matching.market import Market, OutOfTime, Slots


@given(markets(most=2))
def test_the_optimum_is_what_trying_everything_finds(market):
    assert certificate.value(market, solve.assign(market)) == brute_force(market)


@given(markets())
def test_the_optimum_is_found_and_proven(market):
    proof = certificate.prove(market, solve.assign(market))
    assert proof.value == proof.upper_bound == optimum(market)


@pytest.mark.thorough
@given(st.integers(0, 2**32 - 1), st.integers(1, 12))
def test_the_optimum_is_found_from_any_prices(seed, most):
    rng = np.random.default_rng(seed)
    market = random_market(rng, most)
    proof = certificate.prove(market, solve.assign(market, price=random_price(rng, market)))
    assert proof.value == proof.upper_bound == optimum(market)


def test_a_lifelike_market_is_solved_cold_and_warm_to_the_same_proven_worth():
    market = lifelike(150, 20)
    cold = solve.assign(market)
    warm = solve.assign(market, price=cold.price)
    for found in (cold, warm):
        proof = certificate.prove(market, found)
        assert proof.value == proof.upper_bound == optimum(market)


def test_the_same_market_has_the_same_answer():
    first, second = (solve.assign(lifelike(60, 12)) for _ in range(2))
    assert (first.table(lifelike(60, 12)) == second.table(lifelike(60, 12))).all()


def test_no_time_means_no_answer():
    with pytest.raises(OutOfTime):
        solve.assign(lifelike(150, 20), deadline_s=-1.0)


@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0), (2, 2)])
def test_nothing_to_match_is_an_answer_too(shape):
    rows, classes = shape
    market = Market(
        np.zeros(shape, np.int32), np.ones(rows, int), Slots.plain(np.ones(classes, int))
    )
    proof = certificate.prove(market, solve.assign(market))
    assert (proof.value, proof.upper_bound) == (0, 0)
