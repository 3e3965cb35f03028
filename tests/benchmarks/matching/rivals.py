"""What others make of the same market: scipy on single GPUs and jobs, and greed."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from scipy.optimize import linear_sum_assignment

from tests.benchmarks.matching.cluster import Cluster
from workers.matching import certificate, portable, solve
from workers.matching.admission import admit
from workers.matching.decide import COLD
from workers.matching.demand import slots_of
from workers.matching.market import Ints, Market, Slots
from workers.matching.memory import Memory
from workers.matching.problem import problem_of

# What scipy may take for the largest market, and what it is planned to take, since its time grows
# by more than the cube now and then.
MOST_S: Final = 60.0
PLANNED_S: Final = 42.0
STEP: Final = 250


def market_of(cluster: Cluster) -> Market:
    """That of the first round, when all jobs wait."""
    snapshot = cluster.snapshot()
    problem = problem_of(admit(snapshot), snapshot, COLD, Memory())
    return Market(problem.worth, problem.rows.count, slots_of(problem.demand, np.empty(0, int)))


def plain(market: Market) -> Market:
    """Without aging, which scipy does not know."""
    return Market(market.worth, market.rows, Slots.plain(market.slots.capacity))


# --- scipy --------------------------------------------------------------------------------


def scipy_dense(classes: int, seed: int) -> Mapping[str, Any]:
    """The largest market that scipy solves in a minute, and ours on the same weights."""
    tried = [_beside_scipy(size, classes, seed) for size in (1_000, 2_000)]
    size = _largest(tried)
    while size > tried[-1]["scipy_size"]:
        one = _beside_scipy(size, classes, seed)
        if one["scipy_dense_s"] <= MOST_S:
            return one
        size -= STEP
    return tried[-1]


def _largest(tried: list[dict[str, Any]]) -> int:
    """By the growth between the first two."""
    (small, short), (large, long) = ((one["scipy_size"], one["scipy_dense_s"]) for one in tried)
    power = max(2.5, float(np.log(long / short) / np.log(large / small)))
    return int(large * (PLANNED_S / long) ** (1.0 / power) // STEP * STEP)


def _beside_scipy(size: int, classes: int, seed: int) -> dict[str, Any]:
    market = plain(market_of(Cluster(size, size, min(classes, size // 4), seed)))
    cost = -dense(market)
    began_s = time.process_time()
    gpus, jobs = linear_sum_assignment(cost)
    scipy_s = time.process_time() - began_s
    ours_s, found = _timed(market)
    if certificate.value(market, found) != -int(cost[gpus, jobs].sum()):
        raise RuntimeError("scipy and the solver of the matching disagree")
    return {
        "scipy_size": size,
        "scipy_dense_s": scipy_s,
        "solve_at_scipy_size_s": ours_s,
        "speedup_vs_scipy": scipy_s / ours_s,
    }


def dense(market: Market) -> np.ndarray:
    """[GPUs, jobs] the worths one by one, as scipy likes them."""
    row = np.repeat(np.arange(len(market.rows)), market.rows)
    job_class = np.repeat(np.arange(len(market.slots.capacity)), market.slots.capacity)
    return np.maximum(market.worth, 0).astype(np.float64)[row][:, job_class]


def _timed(market: Market, repetitions: int = 5) -> tuple[float, Any]:
    """The median of some; CPU time, as scipy's."""
    seconds = []
    for _ in range(repetitions):
        began_s = time.process_time()
        found = solve.assign(market)
        seconds.append(time.process_time() - began_s)
    return float(np.median(seconds)), found


# --- others -------------------------------------------------------------------------------


def losses(market: Market) -> Mapping[str, float]:
    """The part of the optimum that simple rules leave, without aging."""
    market = plain(market)
    best = certificate.value(market, solve.assign(market))
    return {
        "greedy_loss_ratio": 1.0 - best_pair_first(market) / best,
        "first_come_loss_ratio": 1.0 - first_come(market) / best,
    }


def best_pair_first(market: Market) -> int:
    """Again and again the pair that is worth most of those left."""
    rows, places = market.rows.copy(), market.slots.capacity.copy()
    order = np.argsort(market.worth, axis=None)[::-1]
    order = order[: np.count_nonzero(market.worth > 0)]
    worth, left = 0, int(min(rows.sum(), places.sum()))
    for row, job_class in zip(*np.unravel_index(order, market.worth.shape), strict=True):
        units = min(rows[row], places[job_class])
        if units:
            rows[row] -= units
            places[job_class] -= units
            worth += int(units * market.worth[row, job_class])
            left -= units
        if not left:
            break
    return worth


def first_come(market: Market, seed: int = 1) -> int:
    """Every job in turn takes the GPU that is best for it."""
    rows, worth = market.rows.copy(), 0
    jobs: Ints = np.repeat(np.arange(len(market.slots.capacity)), market.slots.capacity)
    for job_class in np.random.default_rng(seed).permutation(jobs).tolist():
        gain = np.where(rows > 0, market.worth[:, job_class], 0)
        row = int(gain.argmax())
        if gain[row] > 0:
            rows[row] -= 1
            worth += int(gain[row])
    return worth


def portable_s(market: Market) -> Mapping[str, Any]:
    """The route without the compiled solver, which must come to the same."""
    began_s = time.process_time()
    found = portable.assign(market)
    seconds = time.process_time() - began_s
    proof = certificate.prove(market, found)
    return {"portable_solve_s": seconds, "portable_gap": proof.gap}
