"""How far predictions were from what was observed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from workers.prediction.profiles import Floats


class Errors(NamedTuple):
    """Mean absolute and root-mean-square error, and Spearman's rank correlation: None where one
    of the two does not vary."""

    mae: float
    rmse: float
    spearman: float | None


def errors(predicted: Floats, observed: Floats) -> Errors:
    missed = predicted - observed
    return Errors(
        float(np.abs(missed).mean()),
        float(np.sqrt((missed**2).mean())),
        _spearman(predicted, observed),
    )


def _spearman(predicted: Floats, observed: Floats) -> float | None:
    first, second = _ranks(predicted), _ranks(observed)
    spread = float(first.std() * second.std())
    if spread == 0.0:
        return None
    return float(((first - first.mean()) * (second - second.mean())).mean() / spread)


def _ranks(values: Floats) -> Floats:
    """1 for the least; those that are equal share the mean of their ranks."""
    _, at, count = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(count)
    shared: Floats = (last - (count - 1) / 2.0)[at]
    return shared
