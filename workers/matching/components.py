"""Which rows and classes have to do with each other: pools apart are problems apart. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.matching.market import Ints, Market, Slots, Solution

Groups: TypeAlias = NDArray[np.int32]
Pairs: TypeAlias = NDArray[np.bool_]

# So many rows connect almost every class that is connected at all.
SAMPLE: Final = 64


@dataclass(frozen=True)
class Component:
    """A part of a market; `row[i]` and `job_class[j]` are the numbers of its own in the whole."""

    row: Ints
    job_class: Ints

    def market(self, whole: Market) -> Market:
        worth = whole.worth[self.row[:, None], self.job_class]
        return Market(worth, whole.rows[self.row], _part(whole.slots, self.job_class))

    def known(self, price: Ints | None) -> Ints | None:
        return None if price is None else price[self.job_class]

    def named(self, solution: Solution) -> Solution:
        """With the rows and classes of the whole; the prices remain those of the part."""
        own = self.row[solution.row], self.job_class[solution.job_class]
        return replace(solution, row=own[0], job_class=own[1])


def split(market: Market) -> list[Component]:
    """The parts that no pair connects. Rows and classes without a pair are in none, unless there is
    but one part: then it is the whole."""
    rows, classes = market.worth.shape
    whole = [Component(np.arange(rows), np.arange(classes))]
    if not market.worth.size:
        return whole
    group = np.arange(classes, dtype=np.int32)
    _connect(group, _pairs(market, np.linspace(0, rows - 1, min(rows, SAMPLE)).astype(np.int64)))
    alone = np.flatnonzero(group != _largest(group))
    # What few GPUs can take is seldom in a sample: one of them for each such class.
    _connect(group, _pairs(market, np.unique((market.worth[:, alone] > 0).argmax(axis=0))))
    alone = np.flatnonzero(group != _largest(group))
    if not (market.worth[:, alone] > 0).any():
        return whole
    pairs = _pairs(market, np.arange(rows))
    _connect(group, pairs)
    first = pairs.argmax(axis=1)
    row_group = np.where(pairs[np.arange(rows), first], group[first], -1)
    return [
        Component(np.flatnonzero(row_group == number), np.flatnonzero(group == number))
        for number in np.unique(row_group[row_group >= 0]).tolist()
    ]


def _connect(group: Groups, pairs: Pairs) -> None:
    """Give all classes that one row may take the same number in `group`."""
    if not pairs.size:
        return
    first = group[pairs.argmax(axis=1)]
    others = (pairs & (group != first[:, None])).any(axis=1)
    for row in pairs[others]:
        numbers = np.unique(group[row])
        if len(numbers) > 1:
            group[np.isin(group, numbers)] = numbers[0]


def _pairs(market: Market, rows: Ints) -> Pairs:
    """[rows, classes] what may be made, of GPUs and places that there are."""
    worth = market.worth if len(rows) == len(market.rows) else market.worth[rows]
    pairs: Pairs = (worth > 0) & (market.slots.capacity > 0)
    pairs[market.rows[rows] == 0] = False
    return pairs


def _largest(group: Groups) -> int:
    return int(np.bincount(group).argmax()) if len(group) else 0


def _part(slots: Slots, classes: Ints) -> Slots:
    capacity = slots.capacity[classes]
    number = np.arange(capacity.sum()) - np.repeat(np.cumsum(capacity) - capacity, capacity)
    return Slots(capacity, slots.extra[np.repeat(slots.offset[classes], capacity) + number])
