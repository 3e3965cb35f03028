"""The same assignment without a compiled part of ours: minimum-cost flow on the pairs that count.

A GPU takes one of the few classes that are best for it at about the right prices, so OR-tools'
flow solver is given those pairs alone. At the prices of that solution every pair that was left out
is then looked at; those that would be better are added, until there is none. The first prices come
from a part of the rows, small enough to be solved with all its pairs. Pure.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from workers.matching import certificate
from workers.matching.market import Ints, Market, OutOfTime, Slots, Solution

ROUTE: Final = "portable"
Chosen: TypeAlias = NDArray[np.bool_]

# Pairs up to which all are given at once.
WHOLE: Final = 200_000
# The rows that the first prices come from are this part of all.
PART: Final = 8
# Of every row, the classes that are best for it at those prices.
BEST: Final = 32


def assign(market: Market, price: Ints | None = None, ends: float | None = None) -> Solution:
    """`ends` on the clock of `time.monotonic`; raises OutOfTime, at most one flow too late."""
    chosen = market.worth > 0
    if market.worth.size > WHOLE:
        chosen &= _best(market, _prices_of_a_part(market) if price is None else price)
    while True:
        if ends is not None and time.monotonic() > ends:
            raise OutOfTime
        solution = _flow(market, chosen)
        within = Market(np.where(chosen, market.worth, 0), market.rows, market.slots)
        price = certificate.prices(within, solution)
        better = _better(market, chosen, price)
        if not better.any():
            return replace(solution, price=price)
        chosen |= better


def _prices_of_a_part(market: Market) -> Ints:
    some = np.random.default_rng(0).permutation(len(market.rows))[: len(market.rows) // PART]
    share = market.rows[some].sum() / max(1, market.rows.sum())
    part = Market(market.worth[some], market.rows[some], _shrunk(market.slots, share))
    return certificate.prices(part, _flow(part, part.worth > 0))


def _shrunk(slots: Slots, share: float) -> Slots:
    """A `share` of the places of each class, rounded so that their sum is right too."""
    end = np.floor(slots.offset * share).astype(np.int64)
    capacity = np.diff(end)
    number = np.arange(capacity.sum()) - np.repeat(end[:-1] - end[0], capacity)
    step = np.repeat(slots.capacity / np.maximum(capacity, 1), capacity)
    at = np.repeat(slots.offset[:-1], capacity) + (number * step).astype(np.int64)
    return Slots(capacity, slots.extra[at])


def _best(market: Market, price: Ints) -> Chosen:
    """[rows, classes] the BEST classes of each row at `price`."""
    count = market.worth.shape[1]
    if count <= BEST:
        return np.ones(market.worth.shape, np.bool_)
    gain = np.where(market.worth > 0, market.worth - price.astype(np.int32), -certificate.FAR)
    best = np.argpartition(gain, count - BEST, axis=1)[:, count - BEST :]
    chosen = np.zeros(market.worth.shape, np.bool_)
    np.put_along_axis(chosen, best, True, axis=1)
    return chosen


def _better(market: Market, chosen: Chosen, price: Ints) -> Chosen:
    """[rows, classes] the pairs not chosen that would gain more than the best chosen one."""
    gain = np.where(market.worth > 0, market.worth - price.astype(np.int32), -certificate.FAR)
    most = np.where(chosen, gain, 0).max(axis=1, initial=0)
    better: Chosen = gain > most[:, None]
    return better


def _flow(market: Market, chosen: Chosen) -> Solution:
    """The best assignment that uses no other pairs than the chosen ones."""
    row, job_class = np.nonzero(chosen)
    rows, classes = market.worth.shape
    end = rows + classes
    flow = SimpleMinCostFlow()
    pairs = flow.add_arcs_with_capacity_and_unit_cost(
        row, rows + job_class, market.rows[row], -market.worth[row, job_class].astype(np.int64)
    )
    _add(flow, np.arange(rows), end, market.rows, np.zeros(rows, np.int64))
    first, length = _runs(market.slots)
    own = np.searchsorted(market.slots.offset, first, side="right") - 1
    _add(flow, rows + own, end, length, -market.slots.extra[first])
    supply = np.concatenate([market.rows, np.zeros(classes, np.int64), [-market.rows.sum()]])
    flow.set_nodes_supplies(np.arange(end + 1), supply)
    if flow.solve() != SimpleMinCostFlow.Status.OPTIMAL:
        raise RuntimeError("OR-tools found no flow although every GPU may stay without a job")
    count = flow.flows(pairs)
    made = count > 0
    return Solution(row[made], job_class[made], count[made], np.zeros(classes, np.int64), ROUTE)


def _add(flow: SimpleMinCostFlow, tail: Ints, head: int, most: Ints, cost: Ints) -> None:
    flow.add_arcs_with_capacity_and_unit_cost(tail, np.full(len(tail), head), most, cost)


def _runs(slots: Slots) -> tuple[Ints, Ints]:
    """First place and length of the runs of places that one class offers at one extra."""
    own = np.repeat(np.arange(len(slots.capacity)), slots.capacity)
    changes = (np.diff(own, prepend=-1) != 0) | (np.diff(slots.extra, prepend=-1) != 0)
    first = np.flatnonzero(changes)
    return first, np.diff(first, append=len(own))
