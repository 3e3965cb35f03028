"""Intervals that hold nine times in ten, from errors on pairs that a network had not seen.

Split conformal prediction with a normalised score (Lei, G'Sell, Rinaldo, Tibshirani, Wasserman:
Distribution-free predictive inference for regression, 2018, 5.2): the 90 % quantile q of
|error| / scale over pairs left out, and the half-width of a new pair is q · scale. The scale is an
additive model of the errors' logarithm, so that pairs of restless workloads get wider intervals.

Farther from all that was learnt than nearly every pair left out was, the half-width grows in
proportion to the distance: that the quantile holds there as well, nobody has measured.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from workers.prediction import linear
from workers.prediction.linear import Additive
from workers.prediction.profiles import Floats, Ints

COVERAGE: Final = 0.9
# Of the distances of left-out pairs to what was learnt: beyond this one an interval grows.
FAR: Final = 0.95
# Of the mean error, added to each before its logarithm: an error near zero is luck. Our choice.
LEAST_ERROR: Final = 0.25
# Ridge penalty of the scale. It is fitted to the errors that it then divides: were it free to
# follow them, the quantile would be too small. Our choice.
PENALTY: Final = 300.0
# Enough to find a near neighbour; the distance to each is taken for every pair that is judged.
REFERENCES: Final = 512
TINY: Final = 1e-9


class Calibration(NamedTuple):
    """`scale` gives the logarithm of the expected error for each output, `quantile` [outputs]
    the widening to 90 %. `references` are inputs learnt from, `reach` the distance from which
    intervals grow; `least` and `most` [outputs] of what was observed are as far as they go."""

    scale: Additive
    quantile: Floats
    references: Floats
    reach: float
    least: Floats
    most: Floats

    def interval(self, value: Floats, x: Floats, z: Floats) -> tuple[Floats, Floats]:
        """Both ends, [n, outputs]; endless where nothing is known of the errors."""
        wide = self._half_width(x, z)
        low = np.minimum(value, np.maximum(value - wide, self.least))
        high = np.maximum(value, np.minimum(value + wide, self.most))
        return low, high

    def _half_width(self, x: Floats, z: Floats) -> Floats:
        stretch = np.maximum(1.0, nearest(z, self.references) / self.reach)
        wide: Floats = self.quantile * np.exp(self.scale(x)) * stretch[:, np.newaxis]
        return wide


def calibrate(
    x: Floats,
    target: Floats,
    error: Floats,
    kind: Ints,
    weight: Floats,
    references: Floats,
    reach: float,
) -> Calibration:
    """`error` [n, outputs] is the absolute error of each row when it was left out, `kind` [n] says
    which of them err together, as windows of one pair do."""
    known = np.isfinite(error)
    typical = np.where(known, error, 0.0).sum(0) / np.maximum(known.sum(0), 1)
    level = np.log(error + np.maximum(LEAST_ERROR * typical, TINY))
    scale = linear.fit(x, level, _alike(weight, kind), PENALTY)
    quantiles = [_quantile(column, kind) for column in (error / np.exp(scale(x))).T]
    ends = _end(target, np.inf).min(axis=0), _end(target, -np.inf).max(axis=0)
    return Calibration(scale, np.array(quantiles), references, max(reach, TINY), *ends)


def _alike(weight: Floats, kind: Ints) -> Floats:
    """Each kind weighs as much as any other, a row 1 in the mean."""
    _, which, rows = np.unique(kind, return_inverse=True, return_counts=True)
    shared = weight / rows[which]
    alike: Floats = shared / shared.mean()
    return alike


def _end(target: Floats, unknown: float) -> Floats:
    """With what cannot be an end where nothing is known; no end at all where nothing ever is."""
    never = ~np.isfinite(target).any(axis=0)
    return np.where(np.isfinite(target), target, np.where(never, -unknown, unknown))


def _quantile(scores: Floats, kind: Ints) -> float:
    """The conformal quantile of what is known, each kind counted once however often it was seen
    (Lee, Barber, Willett: Distribution-free inference with hierarchical data, 2023, 3.1); infinite
    when too little is known."""
    known = np.isfinite(scores)
    _, which, rows = np.unique(kind[known], return_inverse=True, return_counts=True)
    order = np.argsort(scores[known])
    below = np.cumsum(1.0 / rows[which[order]])
    at = int(np.searchsorted(below, COVERAGE * (len(rows) + 1) - TINY))
    return float(scores[known][order[at]]) if at < len(order) else np.inf


def nearest(z: Floats, references: Floats) -> Floats:
    """The distance to the nearest of the references, root mean square over the features."""
    squares = (z**2).sum(1)[:, np.newaxis] + (references**2).sum(1) - 2.0 * z @ references.T
    nearest_square: Floats = np.maximum(squares.min(axis=1), 0.0)
    distance: Floats = np.sqrt(nearest_square / z.shape[1])
    return distance
