"""Columns of facts that the round before has read already. Pure.

Facts are frozen: what is the same object says the same. The reader of a round hands over the very
objects of the round before wherever nothing changed, which is so for nearly all jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workers.matching.columns import Floats, Ints


class KeptColumns:
    """Of the facts of one round, which it keeps: an id is not given to another object meanwhile."""

    def __init__(self, read: Callable[[Sequence[Any]], Floats]) -> None:
        self._read = read
        self._facts: Sequence[Any] = ()
        self._id = np.empty(0, np.int64)
        self._told = np.empty((0, 0))

    def of(self, facts: Sequence[Any]) -> Floats:
        """[facts, columns] what `read` tells of each; it is asked only about those that are new."""
        own = np.array(list(map(id, facts)), np.int64)
        told = self._recalled(facts, own)
        order = np.argsort(own, kind="stable")
        self._facts, self._id, self._told = facts, own[order], told[order]
        return told

    def _recalled(self, facts: Sequence[Any], own: Ints) -> Floats:
        if not len(self._id):
            return self._read(facts)
        at = np.minimum(np.searchsorted(self._id, own), len(self._id) - 1)
        told = self._told[at]
        new = np.flatnonzero(self._id[at] != own)
        if len(new):
            told[new] = self._read([facts[index] for index in new.tolist()])
        return told
