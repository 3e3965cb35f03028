"""An additive model: what one feature adds, plus what the others add, by ridge regression."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from workers.prediction.profiles import Floats

# Ridge penalty, as so many observations of nothing. Where families of workloads were left out of
# public tables, a stronger one lost to a plain additive model, and a weaker one gained nothing.
PENALTY: Final = 1.0


class Additive(NamedTuple):
    """`value(x) = intercept + (x − centre) · slope`; slope [features, outputs]."""

    centre: Floats
    slope: Floats
    intercept: Floats

    def __call__(self, x: Floats, lift: Floats | float = 1.0) -> Floats:
        """With only the part `lift` of what distinguishes the inputs."""
        value: Floats = self.intercept + lift * ((x - self.centre) @ self.slope)
        return value


def fit(x: Floats, target: Floats, weight: Floats, penalty: float = PENALTY) -> Additive:
    """Ridge regression of each column of `target` [n, outputs] on `x` [n, features].

    A target that is NaN is not learnt from; an output of which none is known stays 0.
    """
    centre = np.average(x, axis=0, weights=weight)
    columns = [_column(x - centre, y, weight, penalty) for y in target.T]
    slopes, intercepts = zip(*columns, strict=True)
    return Additive(centre, np.stack(slopes, axis=1), np.array(intercepts))


def _column(x: Floats, y: Floats, weight: Floats, penalty: float) -> tuple[Floats, float]:
    known = np.isfinite(y)
    x, y, weight = x[known], y[known], weight[known]
    if not len(y):
        return np.zeros(x.shape[1]), 0.0
    ones = np.column_stack([x, np.ones(len(x))])
    ridge = np.diag(np.append(np.full(x.shape[1], penalty), 1e-9))
    solved = np.linalg.solve(ones.T @ (ones * weight[:, np.newaxis]) + ridge, ones.T @ (y * weight))
    return np.asarray(solved[:-1], np.float64), float(solved[-1])
