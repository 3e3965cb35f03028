"""Markets of chance."""

from __future__ import annotations

import numpy as np

from workers.matching.market import Market, Slots, Solution


def random_market(rng: np.random.Generator, most: int) -> Market:
    shape = tuple(rng.integers(1, most + 1, 2))
    worth = rng.integers(1, rng.choice([2, 4, 40, 2_000_000]) + 1, shape)
    worth[rng.random(shape) < rng.choice([0.0, 0.35, 0.8])] = rng.integers(-3, 1)
    if rng.random() < 0.3:
        part = [rng.integers(0, 3, size) for size in shape]  # pools that share nothing
        worth[part[0][:, None] != part[1]] = 0
    if rng.random() < 0.3:  # a running job is worth more where it is
        stays = rng.integers(0, shape[1], shape[0])
        worth[np.arange(shape[0]), stays] += rng.integers(0, 10) * (
            worth[np.arange(shape[0]), stays] > 0
        )
    rows = rng.integers(0, rng.choice([2, 4]), shape[0])
    return Market(worth, rows, random_slots(rng, shape[1]))


def random_slots(rng: np.random.Generator, classes: int) -> Slots:
    capacity = rng.integers(0, rng.choice([2, 4, 9]), classes)
    highest = rng.choice([0, 2, 30])
    extras = [np.sort(rng.integers(0, highest + 1, most))[::-1] for most in capacity]
    return Slots(capacity, np.concatenate(extras).astype(np.int64))


def random_price(rng: np.random.Generator, market: Market):
    highest = rng.choice([1, 40, 3_000_000, 2**40])
    return rng.integers(-highest, highest + 1, len(market.slots.capacity))


def lifelike(rows: int, classes: int, seed: int = 3) -> Market:
    """Smooth weights, all GPUs rank the jobs almost alike: the hard case for every solver."""
    rng = np.random.default_rng(seed)
    load, need = rng.beta(1.6, 3, rows), rng.beta(5, 1.6, classes)
    worth = np.rint(1e6 * np.minimum(1, (1 - load)[:, None] / need) / (1 + load[:, None] * need))
    worth = worth.astype(np.int64) * (rng.random((rows, classes)) > 0.35)
    capacity = rng.integers(0, 2 * rows // classes, classes)
    extra = [np.sort(rng.integers(0, 50_000, most))[::-1] for most in capacity]
    return Market(worth, rng.integers(1, 4, rows), Slots(capacity, np.concatenate(extra)))


def solution(x, price=None) -> Solution:
    """Of a table of counts."""
    row, job_class = np.nonzero(x)
    price = np.zeros(x.shape[1], np.int64) if price is None else price
    return Solution(row, job_class, x[row, job_class], price, "by hand")
