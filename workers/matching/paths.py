"""Large assignments, exactly: successive shortest paths between the classes of jobs. Pure.

Every row of GPUs starts in the class that suits it best at the present prices, whether there is
room or not. Then what is too much moves on: from an overfull class, along the cheapest chain of
"a GPU of class c takes a job of class d instead", to a class with room or to no job at all. Prices
follow the distances (Johnson's potentials), so every step keeps the plan the best one for its
prices; when all classes fit, it is the best of all. With C classes a step costs O(C²) at most and
does not depend on the number of GPUs. Prices of a part of the rows are a good start for the whole,
and leave only some hundreds of steps. (Ahuja, Magnanti, Orlin: Network Flows, 1993, chapter 9.)

A unit is one GPU. Node C, the last one, is "no job": it has room for all and costs nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]

FAR: Final = np.int64(1) << 50
# A part of the rows this often smaller gives the first prices, and so on, down to SMALLEST.
PART: Final = 4
SMALLEST: Final = 64


def assign(worth: Ints, rows: Ints, capacity: Ints) -> Ints:
    """The best `x` of shape [rows, classes]; a pair of worth 0 or less is never made."""
    order = np.random.default_rng(0).permutation(len(rows))
    price = np.zeros(len(capacity), np.int64)
    size = len(rows)
    while size > SMALLEST:
        size = max(1, size // PART)
    while size < len(rows):
        part = order[:size]
        share = rows[part].sum() / max(1, rows.sum())
        plan = _Plan(worth[part], rows[part], np.rint(capacity * share).astype(np.int64), price)
        price = plan.solve()
        size *= PART
    plan = _Plan(worth, rows, capacity, price)
    plan.solve()
    return np.ascontiguousarray(plan.x[:-1].T)


class _Plan:
    """An assignment that is the best one for its prices, but may not fit yet.

    `over[c]` counts the GPUs that are too many in class c; below 0 the class has a price, so it
    must be filled. `spare[c]` counts jobs without a GPU of classes whose price is 0.
    """

    def __init__(self, worth: Ints, rows: Ints, capacity: Ints, price: Ints) -> None:
        none = np.zeros((len(rows), 1), np.int64)
        self.worth = np.hstack([np.where(worth > 0, worth, -FAR), none])
        self.none = len(capacity)
        self.price = np.append(price, 0)
        best = (self.worth - self.price).argmax(axis=1)
        # By class, then by row: what is looked at most is in one piece.
        self.x = np.zeros(self.worth.T.shape, np.int64)
        self.x[best, np.arange(len(rows))] = rows
        load = self.x[:-1].sum(axis=1)
        room = np.maximum(capacity - load, 0)
        self.spare = np.where(self.price[:-1] == 0, room, 0)
        self.over = load - capacity + self.spare
        # The least that a GPU of class c loses in class d, and which row that is.
        self.loss = np.full((self.none + 1, self.none + 1), FAR)
        self.row = np.zeros((self.none + 1, self.none + 1), np.int64)
        for node in range(self.none + 1):
            self._look_at(node)

    def solve(self) -> Ints:
        """Move units until every class fits; returns the prices."""
        while (self.over > 0).any():
            self._move_from(int(self.over.argmax()))
        while (self.over < 0).any():
            self._move_from(self.none)
        return self.price[:-1]

    def _move_from(self, source: int) -> None:
        """Move as many units as fit along the shortest path from `source` to where they may end."""
        distance, before, target = self._shortest(source)
        nodes = [target]
        while nodes[-1] != source:
            nodes.append(int(before[nodes[-1]]))
        self._reprice(distance, distance[target])
        self._shift(list(reversed(nodes)))

    def _shortest(self, source: int) -> tuple[Ints, Ints, int]:
        """Distances at the present prices up to the nearest end, the node before each, that end."""
        distance = np.full(self.none + 1, FAR)
        before = np.full(self.none + 1, source)
        distance[source] = 0
        open_ = distance.copy()
        while True:
            node = int(open_.argmin())
            if node != source and self._ends(node, source):
                return distance, before, node
            open_[node] = FAR
            through = distance[node] + self._lengths(node)
            closer = through < distance
            distance[closer] = through[closer]
            before[closer] = node
            open_[closer] = through[closer]

    def _ends(self, node: int, source: int) -> bool:
        """From an overfull class: at no job, or where units are missing; else only there."""
        if node == self.none:
            return source != self.none
        return bool(self.over[node] < 0)

    def _lengths(self, node: int) -> Ints:
        """To every other node; never below 0, because the plan is the best for its prices."""
        length: Ints = self.loss[node] - self.price[node] + self.price
        if node == self.none:
            # A job that stays without a GPU.
            np.minimum(length[:-1], self.price[:-1], out=length[:-1])
        elif self.spare[node] > 0:
            # A job that finds a GPU after all.
            length[self.none] = 0
        return length

    def _reprice(self, distance: Ints, end: np.int64) -> None:
        near = np.minimum(distance, end)
        self.price += near[self.none] - near

    def _shift(self, nodes: list[int]) -> None:
        """Carry units from node to node; the smallest step says how many."""
        steps = list(pairwise(nodes))
        kinds = [self._kind(start, end) for start, end in steps]
        amount = min(self._most(nodes), *(most for most, _ in kinds))
        for (start, end), (_, row) in zip(steps, kinds, strict=True):
            if row is None:
                self._use_spare(start, end, amount)
            else:
                self._change(row, start, end, amount)
        self._settle(nodes[0], -amount)
        self._settle(nodes[-1], amount)

    def _most(self, nodes: list[int]) -> int:
        ends = [abs(int(self.over[node])) for node in (nodes[0], nodes[-1]) if node != self.none]
        return min(ends)

    def _kind(self, start: int, end: int) -> tuple[int, int | None]:
        """How many units the step takes, and the row that changes; None: a job's own place."""
        length = self.loss[start, end] - self.price[start] + self.price[end]
        if length == 0:
            row = int(self.row[start, end])
            return int(self.x[start, row]), row
        return (int(FAR) if start == self.none else int(self.spare[start])), None

    def _use_spare(self, start: int, end: int, amount: int) -> None:
        if start == self.none:
            self.spare[end] += amount
        else:
            self.spare[start] -= amount

    def _change(self, row: int, start: int, end: int, amount: int) -> None:
        self.x[start, row] -= amount
        self.x[end, row] += amount
        if self.x[start, row] == 0:
            self._look_at(start)
        loss = self.worth[row, end] - self.worth[row]
        less = loss < self.loss[end]
        self.loss[end][less] = loss[less]
        self.row[end][less] = row
        self.loss[end, end] = FAR

    def _settle(self, node: int, amount: int) -> None:
        if node != self.none:
            self.over[node] += amount

    def _look_at(self, node: int) -> None:
        """Find the least losses of a class anew, from the rows that are in it."""
        rows = np.flatnonzero(self.x[node])
        self.loss[node] = FAR
        if len(rows):
            loss = self.worth[rows, node][:, None] - self.worth[rows]
            least = loss.argmin(axis=0)
            self.loss[node] = np.minimum(FAR, loss[least, np.arange(self.none + 1)])
            self.row[node] = rows[least]
        self.loss[node, node] = FAR
