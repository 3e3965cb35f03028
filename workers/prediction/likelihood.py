"""How alike pairs are: what makes the observed ones most likely (Rasmussen, Williams: Gaussian
Processes for Machine Learning, 2006, 5.4.1), found by L-BFGS from where everything is alike a bit.

Features of one group share one rate, as the columns do that say which of several names it is.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from workers.prediction.bilinear import Sides
from workers.prediction.kernel import TERMS, Likeness
from workers.prediction.profiles import Floats, Ints

# Our choices, as is all below.
STEPS: Final = 30
# Logarithms to begin at, and how strongly they are held there: few pairs must not go to extremes.
HEIGHT: Final = 0.0
RATE: Final = -1.0
NOISE: Final = -3.0
HOLD: Final = 0.02
# Beyond which they count no more: a line search may step far.
FARTHEST: Final = 8.0
LEAST_NOISE: Final = 1e-5
# Of a group, the mean square between two pairs is taken to be at least this.
LEAST_SPREAD: Final = 0.02


def likeness(torch: Any, z: Floats, y: Floats, sides: Sides) -> Likeness:
    """As `y` [n] of `z` [n, features] tells."""
    unit = float(np.sqrt((y**2).mean())) if len(y) else 0.0
    if unit <= 0.0:
        return Likeness(np.ones(TERMS), np.zeros(z.shape[1]), 1.0)
    rows, group = sides
    row, column = _Far.of(z[:, :rows], group[:rows]), _Far.of(z[:, rows:], group[rows:])
    logs = _climb(torch, _Likelihood(row.squares, column.squares, y / unit))
    heights, rates, noise = _parts(logs)
    split = len(row.squares)
    each = [row.rates(rates[:split]), column.rates(rates[split:])]
    return Likeness(heights, np.concatenate(each), noise)


class _Far(NamedTuple):
    """How far pairs are from one another in each group of features of one side: `squares` [groups,
    n·n], over their mean, `scale` [groups]; `which` [features] is the group of each."""

    squares: Floats
    scale: Floats
    which: Ints

    @classmethod
    def of(cls, z: Floats, group: Ints) -> _Far:
        names, which = np.unique(group, return_inverse=True)
        squares = np.stack([_square(z[:, group == one]) for one in names])
        scale = np.maximum(squares.mean(axis=1), LEAST_SPREAD)
        return cls(squares / scale[:, np.newaxis], scale, which)

    def rates(self, of_group: Floats) -> Floats:
        """Of each feature, for the squares as they are."""
        rates: Floats = (of_group / self.scale)[self.which]
        return rates


def _square(z: Floats) -> Floats:
    own = (z**2).sum(axis=1)
    square: Floats = np.maximum(own[:, np.newaxis] + own - 2.0 * z @ z.T, 0.0)
    return square.ravel()


def _parts(logs: Floats) -> tuple[Floats, Floats, float]:
    """Heights [terms], rates [groups] and noise."""
    within = np.exp(np.clip(logs, -FARTHEST, FARTHEST))
    heights, rates, noise = np.split(within, [TERMS, len(logs) - 1])
    return heights, rates, float(noise[0]) + LEAST_NOISE


def _climb(torch: Any, likelihood: _Likelihood) -> Floats:
    logs = torch.tensor(likelihood.begin, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [logs], max_iter=STEPS, history_size=20, line_search_fn="strong_wolfe"
    )

    def step() -> float:
        loss, slope = likelihood(logs.detach().numpy())
        logs.grad = torch.from_numpy(slope)
        return loss

    optimiser.step(step)
    found: Floats = logs.detach().numpy()
    return found


class _Likelihood:
    """The negative logarithm of the likelihood of `y` [n], and its slope."""

    def __init__(self, row: Floats, column: Floats, y: Floats) -> None:
        self.row, self.column, self.y = row, column, y
        groups = len(row) + len(column)
        self.begin = np.array([HEIGHT] * TERMS + [RATE] * groups + [NOISE])

    def __call__(self, logs: Floats) -> tuple[float, Floats]:
        n, (heights, rates, noise) = len(self.y), _parts(logs)
        (a, b, c), split = heights, len(self.row)
        row, column = np.exp(-rates[:split] @ self.row), np.exp(-rates[split:] @ self.column)
        both = row * column
        k = (a * row + b * column + c * both).reshape(n, n)
        k[np.diag_indices(n)] += noise
        root, inverse = np.linalg.cholesky(k), np.linalg.inv(k)
        pull = inverse @ self.y
        held = logs - self.begin
        loss = 0.5 * self.y @ pull + np.log(np.diag(root)).sum() + HOLD * (held**2).sum()
        steep = 0.5 * (inverse - np.outer(pull, pull)).ravel()
        row *= steep
        column *= steep
        both *= steep
        slope = [
            *(heights * [row.sum(), column.sum(), both.sum()]),
            *(-rates[:split] * (self.row @ (a * row + c * both))),
            *(-rates[split:] * (self.column @ (b * column + c * both))),
            (noise - LEAST_NOISE) * steep[:: n + 1].sum(),
        ]
        return float(loss), np.array(slope) + 2.0 * HOLD * held
