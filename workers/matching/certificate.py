"""The most that any assignment could be worth, computed from one that claims to be the best.

For any prices p ≥ 0 of the classes, linear-programming duality gives

    Σ_c capacity[c] · p[c]  +  Σ_r rows[r] · max(0, max_c (worth[r, c] − p[c]))  ≥  optimum

and prices that meet an optimal assignment make it an equality. They are found here from the
assignment alone: a class with places to spare costs nothing, and no GPU may gain by changing its
class, so p[c] is the length of the shortest chain of changes from c to a free place. All in whole
numbers: a gap of 0 is a proof. Nothing of the solver is trusted. Pure.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]

_FAR = np.int64(1) << 40


def prices(worth: Ints, x: Ints, rows: Ints, capacity: Ints) -> Ints:
    """[classes] what one more job of each class would be worth; raises ValueError when `x` makes
    more pairs than there are GPUs or jobs, or one that may not be made."""
    _check(worth, x, rows, capacity)
    change = _changes(np.where(worth > 0, worth, -_FAR), x)
    free = x.sum(axis=0) < capacity
    price = np.where(free, np.int64(0), np.maximum(change[:, -1], 0))
    # Bellman-Ford; it ends after one round for each class at the latest.
    for _ in range(len(capacity)):
        shorter = np.minimum(price, np.maximum((change[:, :-1] + price[None, :]).min(axis=1), 0))
        if (shorter == price).all():
            break
        price = shorter
    return price


def bound(worth: Ints, rows: Ints, capacity: Ints, price: Ints) -> int:
    """An upper bound on every assignment, whatever the prices."""
    gain = np.where(worth > 0, worth - price[None, :], 0).max(axis=1, initial=0)
    return int(capacity @ price + rows @ np.maximum(gain, 0))


def value(worth: Ints, x: Ints) -> int:
    return int((worth * x).sum())


def _changes(worth: Ints, x: Ints) -> Ints:
    """[classes, classes + 1] the least that a GPU of the class loses by a change to another, or,
    in the last column, by taking no job."""
    count = worth.shape[1]
    change = np.full((count, count + 1), _FAR, np.int64)
    for job_class in range(count):
        taken = worth[x[:, job_class] > 0]
        if len(taken):
            own = taken[:, job_class, None]
            change[job_class, :-1] = np.minimum(_FAR, (own - taken).min(axis=0))
            change[job_class, -1] = own.min()
    return change


def _check(worth: Ints, x: Ints, rows: Ints, capacity: Ints) -> None:
    if (x < 0).any() or (x.sum(axis=1) > rows).any() or (x.sum(axis=0) > capacity).any():
        raise ValueError("the assignment uses more GPUs or jobs than there are")
    if (worth[x > 0] <= 0).any():
        raise ValueError("the assignment makes a pair that may not be made")
