"""The assignment that is worth most, by the fastest route there is here. Pure.

The compiled solver (`native`) where it was built, OR-tools (`portable`) elsewhere: both are exact,
so what they find is worth the same. Parts of the market that no pair connects are solved one by
one. Nothing here is trusted: `certificate.prove` says of any assignment how good it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from workers.matching import portable
from workers.matching.components import Component, split
from workers.matching.market import Ints, Market, Solution
from workers.matching.native import library


def assign(
    market: Market, *, price: Ints | None = None, deadline_s: float | None = None
) -> Solution:
    """The best assignment, the same one for the same market and `price`.

    `price` of a similar market makes the search short, and whatever it is, never wrong.
    Raises OutOfTime `deadline_s` seconds from now.
    """
    ends = None if deadline_s is None else time.monotonic() + deadline_s
    parts = split(market)
    if len(parts) < 2:
        return _assign(market, price, ends)
    return _joined(
        market,
        [(part, _assign(part.market(market), part.known(price), ends)) for part in parts],
    )


def _assign(market: Market, price: Ints | None, ends: float | None) -> Solution:
    solver = library.built_for(market.worth.shape[1])
    if solver is None:
        return portable.assign(market, price, ends)
    return solver.assign(market, price, ends)


def _joined(market: Market, solved: Sequence[tuple[Component, Solution]]) -> Solution:
    price = np.zeros(market.worth.shape[1], np.int64)
    for part, solution in solved:
        price[part.job_class] = solution.price
    named = [part.named(solution) for part, solution in solved]
    row = np.concatenate([one.row for one in named])
    order = np.argsort(row, kind="stable")
    return Solution(
        row[order],
        np.concatenate([one.job_class for one in named])[order],
        np.concatenate([one.count for one in named])[order],
        price,
        named[0].route,
    )
