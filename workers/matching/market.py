"""What is matched, what comes of it, and how far it may go: the types of the matching. Pure.

    max  Σ worth[r, c] · x[r, c]  +  Σ_c (the first Σ_r x[r, c] of the class's extras)
    with Σ_c x[r, c] ≤ rows[r],  Σ_r x[r, c] ≤ capacity[c],  x ≥ 0 and whole

A pair of worth 0 or less is never made. A class's extras fall from one place to the next: who has
waited longest comes first, so the sum over the places taken is concave, and the problem stays one
of flows that is solved exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Worths: TypeAlias = NDArray[np.int32] | NDArray[np.int64]

# Of a worth or an extra, so that sums of a few of them fit into 32 bits.
MOST_WORTH: Final = 2**27


class OutOfTime(Exception):
    """The time was over before the best assignment was known; nothing is said of any other."""


@dataclass(frozen=True)
class Slots:
    """The places of every class: `capacity[c]` of them, whose extras are
    `extra[offset[c] : offset[c + 1]]`, from the highest to the lowest, none below 0.

    Raises ValueError for extras that rise, are negative or too many or too few.
    """

    capacity: Ints
    extra: Ints

    def __post_init__(self) -> None:
        _whole("capacity", self.capacity, 1)
        _whole("extra", self.extra, 1)
        if (self.capacity < 0).any():
            raise ValueError("a class has a capacity below 0")
        if len(self.extra) != self.capacity.sum():
            raise ValueError(f"{self.capacity.sum()} places, but {len(self.extra)} extras")
        self._check_extras()

    def _check_extras(self) -> None:
        if not len(self.extra):
            return
        if self.extra.min() < 0 or self.extra.max() > MOST_WORTH:
            raise ValueError(f"an extra is below 0 or above {MOST_WORTH}")
        rises = np.diff(self.extra) > 0
        inner = self.offset[1:-1]
        rises[inner[(inner > 0) & (inner < len(self.extra))] - 1] = False
        if rises.any():
            raise ValueError("the extras of a class rise from one place to the next")

    @classmethod
    def plain(cls, capacity: Ints) -> Slots:
        """Places that are worth nothing by themselves."""
        return cls(capacity, np.zeros(max(0, int(capacity.sum())), np.int64))

    @cached_property
    def offset(self) -> Ints:
        return np.concatenate([[0], np.cumsum(self.capacity)]).astype(np.int64)


@dataclass(frozen=True)
class Market:
    """`worth[r, c]` of one GPU of row r with one job of class c, `rows[r]` GPUs in the row.

    Worth is whole and not beyond ± MOST_WORTH; int64 is narrowed to int32.
    Raises ValueError for shapes that do not fit together and numbers out of range.
    """

    worth: Worths
    rows: Ints
    slots: Slots

    def __post_init__(self) -> None:
        _whole("worth", self.worth, 2)
        _whole("rows", self.rows, 1)
        shape = len(self.rows), len(self.slots.capacity)
        if self.worth.shape != shape:
            raise ValueError(f"worth is {self.worth.shape}, rows and classes make it {shape}")
        if (self.rows < 0).any():
            raise ValueError("a row has fewer than 0 GPUs")
        if max(self.worth.max(initial=0), -int(self.worth.min(initial=0))) > MOST_WORTH:
            raise ValueError(f"a pair is worth more than {MOST_WORTH}, or less than its negative")
        if self.worth.dtype != np.int32:
            object.__setattr__(self, "worth", self.worth.astype(np.int32))


@dataclass(frozen=True)
class Solution:
    """`count[k]` GPUs of `row[k]` take a job of `job_class[k]`; each pair once, in order.

    `price[c]` is what one more job of the class would add, less its own extra: where the search
    ended, and where the next one may start. `route` names who searched.
    """

    row: Ints
    job_class: Ints
    count: Ints
    price: Ints
    route: str

    def taken(self, classes: int) -> Ints:
        """[classes] jobs that got a GPU."""
        taken = np.zeros(classes, np.int64)
        np.add.at(taken, self.job_class, self.count)
        return taken

    def table(self, market: Market) -> Ints:
        """[rows, classes] the counts, mostly 0."""
        table = np.zeros(market.worth.shape, np.int64)
        np.add.at(table, (self.row, self.job_class), self.count)
        return table


def _whole(name: str, values: NDArray[np.generic], dimensions: int) -> None:
    if values.ndim != dimensions or not np.issubdtype(values.dtype, np.signedinteger):
        raise ValueError(
            f"{name} must be whole numbers in {dimensions} dimensions,"
            f" not {values.dtype} in {values.ndim}"
        )
