"""Shortest chains of changes, and who gains most where one ends. Pure.

Compiled beside the solver (`native`) where that was built, by numpy elsewhere: the same numbers,
the same one of equals.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from workers.matching.certificate import FAR, or_far
from workers.matching.columns import Ints
from workers.matching.market import Worths
from workers.matching.native import library

# What is looked at in one piece stays in the cache.
_PIECE: Final = 1_024


def shortest(changes: NDArray[np.int32]) -> NDArray[np.int32]:
    """[classes + 1, classes + 1] the shortest chain of changes from each to each, by Floyd and
    Warshall: none leads round and gains, or the plan would not be the best."""
    chain = changes.copy()
    np.fill_diagonal(chain, 0)
    solver = library.built_for(len(chain) - 1)
    if solver is not None:
        solver.shorten(chain)
    else:
        shorten(chain)
    return chain


def best_others(
    worth: Worths, row: Ints, job_class: Ints, ends: Ints, chain: NDArray[np.int32]
) -> tuple[Ints, Ints]:
    """Of each pair of a row and a class, which is one after the last for none, the other class with
    the highest worth on the row less the chain from that class to `ends`; and how high."""
    to = np.ascontiguousarray(chain[:-1].T)
    solver = library.built_for(worth.shape[1])
    look = look_at_all if solver is None else solver.best_others
    return look(worth, row, job_class, ends, to)


def shorten(chain: NDArray[np.int32]) -> None:
    """In place."""
    through = np.empty_like(chain)
    for over in range(len(chain)):
        np.add(chain[:, over, None], chain[over], out=through)
        np.minimum(chain, through, out=chain)


def look_at_all(
    worth: Worths, row: Ints, job_class: Ints, ends: Ints, to: NDArray[np.int32]
) -> tuple[Ints, Ints]:
    """As `best_others`, with the chains by where they end: `to` [classes + 1, classes]."""
    other, most = np.empty(len(row), np.int64), np.empty(len(row), np.int64)
    order = np.argsort(ends, kind="stable")
    for start in range(0, len(row), _PIECE):
        at = order[start : start + _PIECE]
        gain = or_far(worth[row[at]])
        gain -= to[ends[at]]
        own = np.flatnonzero(job_class[at] < worth.shape[1])
        gain[own, job_class[at[own]]] = -FAR
        other[at] = gain.argmax(axis=1)
        most[at] = gain[np.arange(len(at)), other[at]]
    return other, most
