"""What each side adds, and what the two do to each other in proportion to both.

    value = intercept + Σ_d slope_d · o_d + Σ_ij cross_ij · o_i · o_j,        o = x − centre

over all features d, and the products of a feature i of the row and j of the column: those that are
numbers, not those that say which of several names it is. Ridge regression, where a product counts
for less than a feature by itself.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from workers.prediction import linear
from workers.prediction.profiles import Floats

# Of a product, in units of a feature: so it takes four times the evidence to believe in one. Ours.
PRODUCT: Final = 0.5
TINY: Final = 1e-9


class Sides(NamedTuple):
    """Of the features: the first `rows` are the row's, the others the column's. `group` [features]
    numbers them: those of one group say together which of several names it is."""

    rows: int
    group: NDArray[np.intp]

    def numbers(self) -> NDArray[np.bool_]:
        """[features]: those alone in their group."""
        _, which, count = np.unique(self.group, return_inverse=True, return_counts=True)
        alone: NDArray[np.bool_] = count[which] == 1
        return alone


class Bilinear(NamedTuple):
    """`centre` [features], `slope` [features, outputs], `cross` [row's, column's, outputs] and
    `intercept` [outputs], as above."""

    centre: Floats
    slope: Floats
    cross: Floats
    intercept: Floats

    def __call__(self, x: Floats, lift: Floats | float = 1.0) -> Floats:
        """[n, outputs], with only the part `lift` of what distinguishes the inputs."""
        offset, rows = x - self.centre, len(self.cross)
        row, column = offset[:, :rows], offset[:, rows:]
        both = np.einsum("ni,ijo,nj->no", row, self.cross, column, optimize=True)
        value: Floats = self.intercept + lift * (offset @ self.slope + both)
        return value

    def factors(self, rows: Floats, columns: Floats, lift: Floats) -> tuple[Floats, Floats]:
        """[outputs, n, k] and [outputs, k, m], whose product is the value of each of n rows beside
        each of m columns."""
        wide = len(self.cross)
        row, column = rows - self.centre[:wide], columns - self.centre[wide:]
        slope, cross = lift * self.slope, lift * self.cross
        bent = np.einsum("ni,ijo->onj", row, cross, optimize=True)
        by_row = (row @ slope[:wide] + self.intercept).T[:, :, np.newaxis]
        by_column = (column @ slope[wide:]).T[:, np.newaxis]
        across = np.broadcast_to(column.T, (len(bent), *column.T.shape))
        return (
            np.concatenate([bent, by_row, np.ones_like(by_row)], axis=2),
            np.concatenate([across, np.ones_like(by_column), by_column], axis=1),
        )


def fit(x: Floats, sides: Sides, target: Floats, weight: Floats, penalty: float) -> Bilinear:
    """Of each column of `target` [n, outputs], NaN = not known, on `x` [n, features]."""
    centre = np.average(x, axis=0, weights=weight)
    offset, numbers = x - centre, sides.numbers()
    left, right = numbers[: sides.rows], numbers[sides.rows :]
    rows, columns = offset[:, : sides.rows][:, left], offset[:, sides.rows :][:, right]
    unit = PRODUCT / max(float(np.sqrt((offset[:, numbers] ** 2).mean())), TINY)
    products = unit * (rows[:, :, np.newaxis] * columns[:, np.newaxis]).reshape(len(x), -1)
    found = linear.fit(np.column_stack([offset, products]), target, weight, penalty)
    slope, bent = np.split(found.slope, [x.shape[1]])
    cross = np.zeros((len(left), len(right), target.shape[1]))
    cross[np.ix_(left, right)] = unit * bent.reshape(rows.shape[1], columns.shape[1], -1)
    return Bilinear(centre, slope, cross, found.intercept - found.centre @ found.slope)
