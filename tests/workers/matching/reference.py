"""What a market is worth by the reference: every GPU and every job by itself."""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment

from tests.workers.matching.markets import random_market
from workers.matching.market import Market


@st.composite
def markets(draw, most: int = 5):
    """Small ones from a drawn seed: ties, empty classes and rows, likes in one row, aging."""
    return random_market(np.random.default_rng(draw(st.integers(0, 2**32 - 1))), most)


def dense(market: Market):
    """[GPUs, jobs] what each pair is worth, extra included; 0 where it may not be made."""
    row = np.repeat(np.arange(len(market.rows)), market.rows)
    job_class = np.repeat(np.arange(len(market.slots.capacity)), market.slots.capacity)
    worth = market.worth[row][:, job_class].astype(np.int64)
    return np.where(worth > 0, worth + market.slots.extra, 0)


def optimum(market: Market) -> int:
    gain = dense(market)
    gpus, jobs = linear_sum_assignment(gain, maximize=True)
    return int(gain[gpus, jobs].sum())


def brute_force(market: Market) -> int:
    """By trying everything."""
    worth, slots = market.worth.astype(np.int64), market.slots
    free = [range(min(pair) + 1) for pair in product(market.rows, slots.capacity)]
    best = 0
    for amounts in product(*free):
        x = np.array(amounts).reshape(worth.shape)
        taken = x.sum(axis=0)
        fits = (x.sum(axis=1) <= market.rows).all() and (taken <= slots.capacity).all()
        if fits and not x[worth <= 0].any():
            first = zip(slots.offset[:-1], taken, strict=True)
            extra = sum(int(slots.extra[start : start + count].sum()) for start, count in first)
            best = max(best, int((x * worth).sum()) + extra)
    return best
