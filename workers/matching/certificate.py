"""The most that any assignment could be worth, computed from one that claims to be the best.

For any prices p of the classes, linear-programming duality gives

    Σ_c Σ_k max(0, p[c] + extra[c, k])  +  Σ_r rows[r] · max(0, max_c (worth[r, c] − p[c]))

as a bound on every assignment, and prices that meet an optimal one make it an equality. They are
found here from the assignment alone: no GPU may gain by changing its class and no class by taking
one job more, so p[c] is the length of the shortest chain of changes from c to a free place or to
no job. All in whole numbers: a gap of 0 is a proof. Nothing of the solver is trusted: the single
changes are looked up by compiled code where there is some, but prices from wrong ones would only
leave a gap. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from workers.matching.market import MOST_WORTH, Ints, Market, Slots, Solution, Worths
from workers.matching.native import library

# More than any chain that is the shortest one; sums of two fit into 32 bits.
FAR: Final = 2**29
# What is looked at in one piece stays in the cache.
_CELLS: Final = 2**16


@dataclass(frozen=True)
class Proof:
    """`value` of the assignment, and the `upper_bound` that `price` gives for every one.

    `price` is the highest at which nobody gains by a change, `lowest` the lowest: what one more job
    of each class would add, less its own extra. Less it a GPU earns what the plan would lose
    without that GPU.

    `changes` [classes + 1, classes + 1]: the least that one GPU, or one job, loses by a change from
    one class to another, FAR where there is none. The last class is no job: into it goes a job too
    many that takes a free place or the place of another, out of it one that takes an idle GPU or is
    left out.
    """

    value: int
    upper_bound: int
    price: Ints
    lowest: Ints
    changes: NDArray[np.int32]

    @property
    def gap(self) -> int:
        return self.upper_bound - self.value


def prove(market: Market, solution: Solution) -> Proof:
    """Raises ValueError when `solution` makes more pairs than there are GPUs or jobs, or one that
    may not be made."""
    check(market, solution)
    changes = _changes(market, solution)
    price, lowest = _highest(changes), _lowest(changes)
    return Proof(value(market, solution), bound(market, price), price, lowest, changes)


def check(market: Market, solution: Solution) -> None:
    """That it is an assignment at all; raises ValueError when it is not."""
    rows, classes = market.worth.shape
    row, job_class, count = solution.row, solution.job_class, solution.count
    if not len(row) == len(job_class) == len(count):
        raise ValueError("the assignment is not a list of pairs")
    if not (_within(row, rows) and _within(job_class, classes)) or (count < 1).any():
        raise ValueError("the assignment names a row, a class or a count that there is not")
    used = np.bincount(row, count, rows)
    if (used > market.rows).any() or (solution.taken(classes) > market.slots.capacity).any():
        raise ValueError("the assignment uses more GPUs or jobs than there are")
    if (market.worth[row, job_class] <= 0).any():
        raise ValueError("the assignment makes a pair that may not be made")


def value(market: Market, solution: Solution) -> int:
    taken = solution.taken(len(market.slots.capacity))
    pairs = market.worth[solution.row, solution.job_class].astype(np.int64) @ solution.count
    return int(pairs + market.slots.extra[_first(market.slots, taken)].sum())


def bound(market: Market, price: Ints) -> int:
    """An upper bound on every assignment, whatever the prices."""
    slots, total = market.slots, 0
    narrow = np.clip(price, -2 * MOST_WORTH, 2 * MOST_WORTH).astype(np.int32)
    places = np.maximum(np.repeat(narrow, slots.capacity) + slots.extra, 0).sum()
    # At no price below 0 does anybody gain by a pair that may not be made, which is worth 0.
    usable = np.ndarray.copy if (narrow >= 0).all() else or_far
    for piece in _pieces(market):
        worth = usable(market.worth[piece])
        gain = np.subtract(worth, narrow, out=worth).max(axis=1, initial=0)
        total += int(market.rows[piece] @ gain.astype(np.int64))
    return total + int(places)


def prices(market: Market, solution: Solution) -> Ints:
    """[classes] the highest prices at which nobody gains by a change."""
    return _highest(_changes(market, solution))


def _highest(changes: NDArray[np.int32]) -> Ints:
    """[classes] of an assignment that is not the best there are no prices, and these prove so by a
    bound above its value."""
    change = changes[:-1, :-1]
    price = np.minimum(changes[:-1, -1], MOST_WORTH).astype(np.int64)
    # Bellman and Ford: there is no shortest chain of more changes than classes.
    for _ in range(len(price)):
        shorter = np.minimum(price, (change + price.astype(np.int32)).min(axis=1, initial=FAR))
        shorter = np.maximum(shorter, -MOST_WORTH)
        if (shorter == price).all():
            break
        price = shorter
    return price


def _lowest(changes: NDArray[np.int32]) -> Ints:
    """[classes]"""
    change = changes[:-1, :-1]
    price: Ints = np.maximum(-changes[-1, :-1].astype(np.int64), -MOST_WORTH)
    for _ in range(len(price)):
        higher: Ints = np.maximum(price, (price[:, None] - change).max(axis=0, initial=-MOST_WORTH))
        if (higher == price).all():
            break
        price = higher
    return price


def _changes(market: Market, solution: Solution) -> NDArray[np.int32]:
    """As `Proof.changes`."""
    classes = len(market.slots.capacity)
    changes = np.full((classes + 1, classes + 1), FAR, np.int32)
    solver = library.built_for(classes)
    lowered = lower if solver is None or not classes else solver.lower
    lowered(changes, market.worth, solution.row, solution.job_class)
    changes[:-1, -1] = np.minimum(changes[:-1, -1], _next_place(market.slots, solution))
    changes[-1, :-1] = _one_fewer(market, solution)
    return changes


def lower(changes: NDArray[np.int32], worth: Worths, row: Ints, job_class: Ints) -> None:
    """In place, the least that a pair of a row and a class loses when the row changes to another
    class, or to none."""
    order = np.argsort(job_class, kind="stable")
    row, job_class = row[order], job_class[order]
    size = max(1, _CELLS // max(1, worth.shape[1]))
    for start in range(0, len(row), size):
        own = job_class[start : start + size]
        usable = or_far(worth[row[start : start + size]])
        mine = usable[np.arange(len(own)), own]
        loss = np.subtract(mine[:, None], usable, out=usable)
        first = np.flatnonzero(np.diff(own, prepend=-1))
        named, part, leave = own[first], changes[:-1, :-1], changes[:-1, -1]
        part[named] = np.minimum(part[named], np.minimum.reduceat(loss, first, axis=0))
        leave[named] = np.minimum(leave[named], np.minimum.reduceat(mine, first))


def _next_place(slots: Slots, solution: Solution) -> Ints:
    """[classes] what a job more in a free place of its own loses, FAR without one."""
    taken = solution.taken(len(slots.capacity))
    free = taken < slots.capacity
    loses: Ints = np.full(len(taken), FAR, np.int64)
    loses[free] = -slots.extra[slots.offset[:-1][free] + taken[free]]
    return loses


def _one_fewer(market: Market, solution: Solution) -> Ints:
    """[classes] what is lost when a job has to do without its GPU: it takes one that is idle, or is
    left out."""
    slots, classes = market.slots, len(market.slots.capacity)
    taken = solution.taken(classes)
    some = taken > 0
    loses: Ints = np.full(classes, FAR, np.int64)
    loses[some] = slots.extra[slots.offset[:-1][some] + taken[some] - 1]
    idle = np.bincount(solution.row, solution.count, len(market.rows)) < market.rows
    gains = or_far(market.worth[idle]).max(axis=0, initial=-FAR)
    fewer: Ints = np.minimum(loses, -gains.astype(np.int64))
    return fewer


def or_far(worth: Worths) -> Worths:
    """A copy with -FAR for pairs that may not be made. By shifts and masks, because numpy chooses
    between two values one by one."""
    never = worth - 1
    never >>= 31
    usable = worth | never
    never &= FAR - 1
    usable -= never
    return usable


def _first(slots: Slots, taken: Ints) -> NDArray[np.bool_]:
    """[places] whether it is among the `taken[c]` first ones of its class."""
    number = np.arange(len(slots.extra)) - np.repeat(slots.offset[:-1], slots.capacity)
    return number < np.repeat(taken, slots.capacity)


def _pieces(market: Market) -> list[slice]:
    size = max(1, _CELLS // max(1, market.worth.shape[1]))
    return [slice(start, start + size) for start in range(0, len(market.rows), size)]


def _within(numbers: Ints, end: int) -> bool:
    return not len(numbers) or bool(numbers.min() >= 0 and numbers.max() < end)
