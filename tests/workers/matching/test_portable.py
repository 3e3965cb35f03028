"""Without the compiled solver the optimum is the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workers.matching.markets import lifelike, random_market, random_price
from tests.workers.matching.reference import optimum
from workers.matching import certificate, portable
from workers.matching.market import OutOfTime


@pytest.mark.thorough
@given(st.integers(0, 2**32 - 1))
def test_the_optimum_is_found(seed):
    market = random_market(np.random.default_rng(seed), 6)
    proof = certificate.prove(market, portable.assign(market))
    assert proof.value == proof.upper_bound == optimum(market)


@pytest.mark.thorough
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3]))
def test_pairs_left_out_at_first_never_cost_the_optimum(seed, best):
    rng = np.random.default_rng(seed)
    market = random_market(rng, 9)
    price = random_price(rng, market) if rng.random() < 0.5 else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portable, "WHOLE", 0)
        patch.setattr(portable, "BEST", best)
        proof = certificate.prove(market, portable.assign(market, price))
    assert proof.value == proof.upper_bound == optimum(market)


def test_a_lifelike_market_is_solved_on_the_best_pairs():
    market = lifelike(120, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(portable, "WHOLE", 0)
        patch.setattr(portable, "BEST", 8)
        proof = certificate.prove(market, portable.assign(market))
    assert proof.value == proof.upper_bound == optimum(market)


def test_time_that_is_over_is_said():
    with pytest.raises(OutOfTime):
        portable.assign(lifelike(20, 5), ends=0.0)
