"""Maximum-weight assignment of rows of GPUs to classes of jobs, exactly.

    max Σ worth[r, c] · x[r, c]   with Σ_c x[r, c] ≤ rows[r],  Σ_r x[r, c] ≤ capacity[c],  x ≥ 0

Small problems go to the Hungarian method on single GPUs and jobs; its time grows with the cube of
their number on lifelike weights, so larger ones are solved as the transport problem above, whose
corners are whole numbers. There the linear program starts with the arcs that look best at the
prices of a sample, and takes in every arc that its own prices would still gain from, until there
is none. Either way `certificate.bound` checks the result without trusting this module. Pure; the
only module that imports scipy.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment, linprog
from scipy.sparse import coo_matrix

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]

# Up to here the Hungarian method takes less than a tenth of a second.
DENSE_CELLS: Final = 250_000
# Up to here all arcs go into one linear program, which then takes about a second.
DIRECT_ARCS: Final = 100_000
FIRST_ARCS: Final = 16
SAMPLE_PARTS: Final = 8
SAMPLE_ROWS: Final = 200
# Worth is in millionths; the solver sees thousandths of them, far above its tolerance of 1e-7.
UNIT: Final = 1_000.0


def assign(worth: Ints, rows: Ints, capacity: Ints) -> Ints:
    """`x` of shape [rows, classes]; a pair of worth 0 or less is never made.

    Raises ArithmeticError when the linear program does not end, which bounded inputs rule out.
    """
    if not (worth > 0).any():
        return np.zeros(worth.shape, np.int64)
    if int(rows.sum()) * int(capacity.sum()) <= DENSE_CELLS:
        return _hungarian(worth, rows, capacity)
    return _transport(worth, rows, capacity)


def _hungarian(worth: Ints, rows: Ints, capacity: Ints) -> Ints:
    row_of = np.repeat(np.arange(len(rows)), rows)
    class_of = np.repeat(np.arange(len(capacity)), capacity)
    gain = np.maximum(worth, 0)[row_of][:, class_of]
    gpus, jobs = linear_sum_assignment(gain, maximize=True)
    made = gain[gpus, jobs] > 0
    x = np.zeros(worth.shape, np.int64)
    np.add.at(x, (row_of[gpus[made]], class_of[jobs[made]]), 1)
    return x


def _transport(worth: Ints, rows: Ints, capacity: Ints) -> Ints:
    possible = worth > 0
    arcs = possible
    if int(possible.sum()) > DIRECT_ARCS:
        prices = _sampled_prices(worth, rows, capacity)
        arcs = possible & _best(worth - UNIT * prices, FIRST_ARCS)
    while True:
        solution = _solve(worth, rows, capacity, arcs)
        missed = possible & ~arcs & (_reduced(worth, solution) > 0.0)
        if not missed.any():
            return solution.x
        arcs = arcs | (missed & _best(np.where(missed, _reduced(worth, solution), -np.inf)))


class _Solution(NamedTuple):
    """`x`, and the dual values of rows and classes in thousands of worth units."""

    x: Ints
    row_value: Floats
    price: Floats


def _reduced(worth: Ints, solution: _Solution) -> Floats:
    """What an arc would add at the present prices; never positive in an optimum."""
    gain: Floats = worth / UNIT - solution.row_value[:, None] - solution.price[None, :]
    return gain - 1e-6


def _best(gain: Floats, count: int = FIRST_ARCS) -> Mask:
    """True for the `count` best classes of each row."""
    count = min(count, gain.shape[1])
    edge = np.partition(gain, -count, axis=1)[:, -count]
    chosen: Mask = gain >= edge[:, None]
    return chosen


def _sampled_prices(worth: Ints, rows: Ints, capacity: Ints) -> Floats:
    """Prices of the classes when a part of the rows shares the same part of the jobs."""
    size = min(len(rows), max(SAMPLE_ROWS, len(rows) // SAMPLE_PARTS))
    chosen = np.random.default_rng(0).choice(len(rows), size, replace=False)
    part = rows[chosen].sum() / rows.sum()
    sample = worth[chosen]
    return _solve(sample, rows[chosen], capacity * part, sample > 0).price


def _solve(worth: Ints, rows: Ints, capacity: Ints | Floats, arcs: Mask) -> _Solution:
    row, column = np.nonzero(arcs)
    arc = np.arange(len(row))
    sums = coo_matrix(
        (np.ones(2 * len(row)), (np.r_[row, len(rows) + column], np.r_[arc, arc])),
        shape=(len(rows) + len(capacity), len(row)),
    )
    answer = linprog(
        -worth[row, column] / UNIT,
        A_ub=sums.tocsr(),
        b_ub=np.r_[rows, capacity],
        method="highs-ipm",
    )
    if not answer.success:
        raise ArithmeticError(f"The assignment could not be solved: {answer.message}")
    x = np.zeros(worth.shape, np.int64)
    x[row, column] = np.rint(answer.x)
    value = -answer.ineqlin.marginals
    return _Solution(x, value[: len(rows)], value[len(rows) :])
