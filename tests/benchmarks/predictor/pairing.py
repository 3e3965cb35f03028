"""What the predictions are for: which workloads to put together.

The workloads of a table are dealt into two sides; those pairs that were measured may be formed and
are worth what both sides then do. How much of what a perfect predictor gains over chance is gained?
Asked twice: with the pairs that one split held out, and with all that were measured, each predicted
by the split that had held it out. The second is the harder question: nearly everything can be
paired there, so that nothing is gained by pairing more, only by pairing better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from scipy.optimize import linear_sum_assignment

from tests.benchmarks.predictor.measuring import FOLDS, Held
from tests.benchmarks.predictor.tables import Measured
from workers.prediction.profiles import Floats, Ints

DEALS: Final = 10
CHANCES: Final = 20


def gains(table: Measured, held: Sequence[Held]) -> Mapping[str, float]:
    """`held` are whole rounds of splits. Parts of the oracle's gain over random pairs."""
    rounds = [held[at : at + FOLDS] for at in range(0, len(held), FOLDS)]
    best, greedy = _gains(table, [[one] for one in held])
    hard, hard_greedy = _gains(table, rounds)
    return {
        "matching_gain": best,
        "greedy_gain": greedy,
        "matching_gain_all_pairs": hard,
        "greedy_gain_all_pairs": hard_greedy,
    }


def _gains(table: Measured, graphs: Sequence[Sequence[Held]]) -> tuple[float, float]:
    """Of the best matching on predictions, and of a greedy one."""
    rng = np.random.default_rng(1)
    totals = [_deal(*_worths(table, graph), rng) for graph in graphs for _ in range(DEALS)]
    chance, greedy, best, oracle = np.array(totals).mean(axis=0).tolist()
    return (best - chance) / (oracle - chance), (greedy - chance) / (oracle - chance)


def _worths(table: Measured, held: Sequence[Held]) -> tuple[Floats, Floats]:
    """Of each pair of workloads, predicted and true; 0 = not measured."""
    names = sorted({*table.mine, *table.other})
    at = {name: number for number, name in enumerate(names)}
    predicted, true = np.zeros((2, len(names), len(names)))
    for one in held:
        for row, said in zip(one.rows.tolist(), one.predicted.tolist(), strict=True):
            pair = at[table.mine[row]], at[table.other[row]]
            for of, worth in ((predicted, said), (true, table.speed[row])):
                of[pair] += worth
                of[pair[::-1]] += worth
    return predicted, true


def _deal(
    predicted: Floats, true: Floats, rng: np.random.Generator
) -> tuple[float, float, float, float]:
    order = rng.permutation(len(true))
    sides = np.ix_(order[::2], order[1::2])
    guess, truth = predicted[sides], true[sides]
    chances = [_total(_greedy(rng.random(truth.shape), truth), truth) for _ in range(CHANCES)]
    return (
        float(np.mean(chances)),
        _total(_greedy(guess, truth), truth),
        _total(_most(guess, truth), truth),
        _total(_most(truth, truth), truth),
    )


def _most(worth: Floats, truth: Floats) -> tuple[Ints, Ints]:
    """The pairs of the most worth, of those that were measured."""
    return linear_sum_assignment(np.where(truth > 0.0, worth, 0.0), maximize=True)


def _greedy(guess: Floats, truth: Floats) -> tuple[Ints, Ints]:
    """The best pair first, then the best of those that are left, until none is."""
    left = np.where(truth > 0.0, guess, -np.inf)
    chosen = []
    while np.isfinite(left).any():
        row, column = np.unravel_index(int(left.argmax()), left.shape)
        chosen.append((row, column))
        left[row], left[:, column] = -np.inf, -np.inf
    rows, columns = np.array(chosen).T
    return rows, columns


def _total(chosen: tuple[Ints, Ints], truth: Floats) -> float:
    """What the chosen pairs really do."""
    return float(truth[chosen].sum())
