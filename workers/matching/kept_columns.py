"""Columns of facts that the round before has read already. Pure.

Facts are frozen: what is the same object says the same. The reader of a round hands over the very
objects of the round before wherever nothing changed, which is so for nearly all jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from workers.matching import columns
from workers.matching.columns import Floats

# More kinds than a fleet has at once; beyond them numbering begins anew.
MOST_KINDS: Final = 65_536


class KeptColumns:
    """Of the facts of one round, which it keeps: an id is not given to another object meanwhile.

    `before` tells where each of the last facts was among those of the round before, -1: it is new;
    `rounds` how often it was asked. `kinds` are what `read` has numbered.
    """

    def __init__(self, read: Callable[[Sequence[Any]], Floats], kinds: dict[Any, int]) -> None:
        self._read, self._kinds = read, kinds
        self._facts: Sequence[Any] | None = None
        self._id = self._order = np.empty(0, np.int64)
        self._told = np.empty((0, 0))
        self.before = np.empty(0, np.int64)
        self.rounds = 0

    def of(self, facts: Sequence[Any]) -> Floats:
        """[facts, columns] what `read` tells of each; it is asked only about those that are new."""
        if len(self._kinds) > MOST_KINDS:
            self._kinds.clear()
            self._facts, self._id = None, np.empty(0, np.int64)
        if facts is self._facts:
            return self._told
        own = np.fromiter(map(id, facts), np.int64, len(facts))
        self.before = columns.places(self._id, own, self._order)
        told = self._read_again(facts)
        self._facts, self._id, self._order, self._told = facts, own, np.argsort(own), told
        self.rounds += 1
        return told

    def _read_again(self, facts: Sequence[Any]) -> Floats:
        new = np.flatnonzero(self.before < 0)
        if len(new) == len(facts):
            return self._read(facts)
        told = self._told[self.before]
        if len(new):
            told[new] = self._read([facts[index] for index in new.tolist()])
        return told
