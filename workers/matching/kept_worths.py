"""What loads and classes are worth together as far as predictions go, worked out once. Pure.

A round has nearly all loads and classes of the one before. The bound of the policy on slowdown
belongs to it, so there is a table for each that occurs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.matching import weights
from workers.matching.columns import Ints, places
from workers.prediction.predictor import Floats32

Worths: TypeAlias = NDArray[np.int32]
# Loads are worked on so many at a time: what is at hand stays in the cache.
_PIECE: Final = 1_024


@dataclass(frozen=True)
class Scored:
    """Point estimates of every pair asked for: online side i with job k stands in row `row[i]` and
    column `column[k]`, beside others that were asked for before.
    """

    throughput: Floats32
    slowdown: Floats32
    row: Ints
    column: Ints


@dataclass(frozen=True)
class _Table:
    """[load, job_class] in millionths; loads rise."""

    load: Ints
    job_class: Sequence[str]
    worth: Worths


class KeptWorths:
    """Of the predictor that scored them; of another one nothing is kept."""

    def __init__(self) -> None:
        self._tables: dict[float, _Table] = {}

    def forget(self) -> None:
        self._tables.clear()

    def of(
        self,
        bounds: Sequence[float],
        load: Ints,
        job_class: Sequence[str],
        weight: Floats32,
        scored: Scored,
    ) -> list[Worths]:
        """[load, job_class] for each of `bounds` on slowdown. `load`, which rises, and `job_class`
        are numbers and names that hold for all rounds, in the order of `scored`. Of other bounds
        nothing is kept: a table takes megabytes, and people try out policies."""
        self._tables = {most: self._table(most, load, job_class, weight, scored) for most in bounds}
        return [table.worth for table in self._tables.values()]

    def _table(
        self, most: float, load: Ints, job_class: Sequence[str], weight: Floats32, scored: Scored
    ) -> _Table:
        worth = np.empty((len(load), len(job_class)), np.int32)
        every = np.arange(len(load)), np.arange(len(job_class))
        rows, columns = every[0], every[1][:0]
        known = self._tables.get(most)
        if known is not None and known.worth.size:
            row, column = places(known.load, load), _columns(known, job_class)
            kept = known.worth if known.job_class == job_class else known.worth[:, column]
            np.take(kept, row, axis=0, out=worth, mode="clip")
            rows, columns = np.flatnonzero(row < 0), np.flatnonzero(column < 0)
        _score(worth, rows, every[1], most, weight, scored)
        _score(worth, every[0], columns, most, weight, scored)
        return _Table(load, job_class, worth)


def _columns(known: _Table, job_class: Sequence[str]) -> Ints:
    place = {name: at for at, name in enumerate(known.job_class)}
    return np.array([place.get(name, -1) for name in job_class], np.int64)


def _score(
    worth: Worths, rows: Ints, columns: Ints, most: float, weight: Floats32, scored: Scored
) -> None:
    """Fill in these rows and columns of `worth`."""
    if not len(columns):
        return
    for start in range(0, len(rows), _PIECE):
        some = rows[start : start + _PIECE]
        where = np.ix_(scored.row[some], scored.column[columns])
        throughput, slowdown = scored.throughput[where], scored.slowdown[where]
        value = weights.worth(throughput, slowdown, weight[columns])
        value[~(value > 0.0) | weights.forbidden(throughput, slowdown, most)] = 0.0
        worth[np.ix_(some, columns)] = np.rint(weights.SCALE * value)
