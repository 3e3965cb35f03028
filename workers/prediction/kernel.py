"""A Gaussian process: what is known of pairs like this one tells of it.

    k(z, z') = a · R + b · C + c · R · C,   R = exp(−Σ rate · (z − z')²) over the row's features,
                                            C likewise over the column's

so a pair is like those with a row like its own, those with a column like its own, and most of all
those with both. It knows few pairs better than networks do, and says nothing, 0, where no pair is
like the one asked about. Its mean goes through m of the n pairs learnt from (Rasmussen, Williams:
Gaussian Processes for Machine Learning, 2006, 8.3.1), which is exact when those are all.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.prediction.profiles import Floats

# Of either width.
Numbers: TypeAlias = NDArray[Any]

# The heights of a kernel: a, b and c.
TERMS: Final = 3
# Of the heights, added to the variance of each point, so that points may coincide.
JITTER: Final = 1e-6
# Pairs at a time: with 512 points they stay within a core's cache.
BLOCK: Final = 512


class Likeness(NamedTuple):
    """When pairs are alike, to one output: `heights` are a, b and c, `rates` [features]; and
    the variance of a measurement, `noise`. Heights and noise are in units of what is learnt."""

    heights: Floats
    rates: Floats
    noise: float


class Kernel(NamedTuple):
    """`heights` [outputs, terms], `rates` [outputs, features], and `pull` [outputs, m] is what each
    of the points adds."""

    heights: Floats
    rates: Floats
    pull: Floats

    def __call__(self, z: Floats, points: Floats, rows: int) -> Floats:
        """[n, outputs]; the first `rows` features are the row's."""
        known = points.astype(np.float32)
        parts = np.array_split(z.astype(np.float32), max(1, -(-len(z) // BLOCK)))
        return np.concatenate([self._block(one, known, rows) for one in parts], dtype=np.float64)

    def _block(self, z: Numbers, points: Numbers, rows: int) -> Numbers:
        each = zip(*self, strict=True)
        said = [
            alike(heights, rates, rows, z, points) @ pull.astype(z.dtype)
            for heights, rates, pull in each
        ]
        return np.stack(said, axis=1)


def fit(like: Likeness, rows: int, z: Floats, points: Floats, y: Floats, weight: Floats) -> Floats:
    """What each of the points [m, features] adds: (K_mn W K_nm + noise · K_mm)⁻¹ K_mn W y, by
    Cholesky factors since it is near singular."""
    steady = np.sqrt(weight / like.noise)
    among: Floats = alike(like.heights, like.rates, rows, points, points)
    among[np.diag_indices_from(among)] += JITTER * like.heights.sum()
    root = np.asarray(np.linalg.cholesky(among), np.float64)
    near: Floats = alike(like.heights, like.rates, rows, points, z)
    across = np.asarray(np.linalg.solve(root, near * steady), np.float64)
    inner = np.eye(len(points)) + across @ across.T
    pull: Floats = np.linalg.solve(root.T, np.linalg.solve(inner, across @ (y * steady)))
    return pull


def alike(heights: Floats, rates: Floats, rows: int, z: Numbers, points: Numbers) -> Numbers:
    """k of each z [n, features] with each point [m, features]: [n, m], of the width of z."""
    a, b, c = heights.tolist()
    row = _nearness(rates[:rows], z[:, :rows], points[:, :rows])
    column = _nearness(rates[rows:], z[:, rows:], points[:, rows:])
    either: Numbers = row * (a + c * column)
    either += b * column
    return either


def _nearness(rates: Floats, z: Numbers, points: Numbers) -> Numbers:
    root = np.sqrt(rates).astype(z.dtype)
    left, right = z * root, points * root
    nearness: Numbers = left @ (2.0 * right).T
    nearness -= (left**2).sum(1)[:, np.newaxis]
    nearness -= (right**2).sum(1)
    np.minimum(nearness, 0.0, out=nearness)
    np.exp(nearness, out=nearness)
    return nearness
