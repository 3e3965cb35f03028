"""A problem matched, within what may be restarted, and proven. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from workers.matching import certificate, moves, solve
from workers.matching.certificate import Proof
from workers.matching.columns import Ints
from workers.matching.dealing import Deal, deal
from workers.matching.demand import slots_of
from workers.matching.market import Market, Solution
from workers.matching.moves import Chain
from workers.matching.problem import Problem

_NOBODY = np.empty(0, np.int64)


class Watch(Protocol):
    """What times the phases, and says how many seconds are left."""

    def phase(self, name: str) -> AbstractContextManager[None]: ...

    def left_s(self) -> float: ...


@dataclass(frozen=True)
class Matched:
    """The best plan in which the guests `pinned` stay where they are.

    `solution` names the rows and classes of the problem. `trimmed`: guests for which a better
    place was found, but no restart is left. `price` of each class, of the plan without pins.
    """

    problem: Problem
    solution: Solution
    proof: Proof
    deal: Deal
    chains: Sequence[Chain]
    pinned: Ints
    trimmed: Ints
    price: Ints

    @property
    def prices(self) -> Mapping[str, int]:
        """Where the next round may start, which has all guests to look at again."""
        return dict(zip(self.problem.classes.key, self.price.tolist(), strict=True))

    @cached_property
    def value(self) -> int:
        """What the plan is worth, without what only steers it: aging, staying and the guard."""
        problem, solution = self.problem, self.solution
        worth = problem.worth[solution.row, solution.job_class].astype(np.int64)
        kept = self.deal.kept
        steering = problem.worth[problem.guest_row[kept], problem.own_class[kept]]
        steering = steering - problem.guests.worth[kept]
        staying = np.concatenate(
            [self.pinned, np.arange(problem.field.moving, len(problem.field.guests))]
        )
        still = problem.guests.worth[staying].sum()
        return int(worth @ solution.count - steering.sum() + still)


def match(
    problem: Problem, restarts_left: Mapping[str, int], prices: Mapping[str, int], watch: Watch
) -> Matched:
    """Raises OutOfTime when `watch` says that no time is left."""
    pinned, trimmed = _NOBODY, _NOBODY
    price, reached = _start(problem, prices), None
    while True:
        with watch.phase("solve"):
            market, rows = _market(problem, pinned)
            found = _solve(market, price, watch.left_s())
            price = found.price
            reached = price if reached is None else reached
            solution = Solution(
                rows[found.row], found.job_class, found.count, found.price, found.route
            )
            dealt = deal(problem, solution, pinned)
            chains = moves.chains(problem, dealt)
            more, late = _to_pin(problem, dealt, chains, restarts_left, pinned)
        if more is None:
            break
        pinned, trimmed = more, np.concatenate([trimmed, late])
    with watch.phase("prove"):
        proof = certificate.prove(market, found)
    trimmed = np.intersect1d(trimmed, pinned)
    return Matched(problem, solution, proof, dealt, chains, pinned, trimmed, reached)


def _start(problem: Problem, prices: Mapping[str, int]) -> Ints | None:
    """The last prices; of a class that is new the usual one."""
    known = [prices.get(key) for key in problem.classes.key]
    told = [price for price in known if price is not None]
    if not told:
        return None
    usual = int(np.median(told))
    return np.array([usual if price is None else price for price in known], np.int64)


def _market(problem: Problem, pinned: Ints) -> tuple[Market, Ints]:
    """Without the pinned guests and their GPUs; and which rows are left."""
    slots = slots_of(problem.demand, problem.guests.job[pinned])
    _, offset = problem.rows.without(problem.guests.seat[pinned])
    count = np.diff(offset)
    rows = np.flatnonzero(count)
    if len(rows) == len(problem.rows):
        return Market(problem.worth, count, slots), rows
    return Market(problem.worth[rows], count[rows], slots), rows


def _solve(market: Market, price: Ints | None, left_s: float) -> Solution:
    if not market.worth.size:
        return Solution(
            _NOBODY, _NOBODY, _NOBODY, np.zeros(market.worth.shape[1], np.int64), "none"
        )
    return solve.assign(market, price=price, deadline_s=left_s)


def _to_pin(
    problem: Problem,
    dealt: Deal,
    chains: Sequence[Chain],
    restarts_left: Mapping[str, int],
    pinned: Ints,
) -> tuple[Ints | None, Ints]:
    """The guests to pin before matching again, None when the plan may stand; and those of them
    for which no restart is left."""
    if len(dealt.unseated):
        classes = problem.own_class[dealt.unseated]
        same = np.flatnonzero(np.isin(problem.own_class, classes))
        return np.union1d(pinned, same), _NOBODY
    allowed = moves.within_budget(problem, chains, restarts_left)
    if allowed is None:
        return None, _NOBODY
    every = np.arange(problem.field.moving)
    return np.setdiff1d(every, allowed), np.setdiff1d(dealt.moved, allowed)
