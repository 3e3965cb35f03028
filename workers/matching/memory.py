"""What one round leaves to the next: predictions already made, and the prices that it ended at.

A round asks for the same predictions as the one before, but for the few GPUs whose load went to
another step of 5 % and the few profiles that are new. Whatever is remembered changes no decision,
only how long it takes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from workers.prediction.predictor import Predictor, Scores
from workers.prediction.profiles import Floats, Ints, Profiles

Floats32: TypeAlias = NDArray[np.float32]


class Judged(msgspec.Struct, frozen=True, gc=False):
    """What the predictor says of one pair at one share, with the ends of 90 % intervals."""

    share_percent: float
    throughput: float
    throughput_low: float
    throughput_high: float
    slowdown: float
    slowdown_low: float
    slowdown_high: float
    source: str
    flags: str


@dataclass(frozen=True)
class Sides:
    """Workloads by a `key` that holds for all rounds, and their `profiles` in the same order."""

    key: Sequence[Hashable]
    profiles: Profiles

    def take(self, indices: Ints) -> Sides:
        keys = [self.key[one] for one in indices.tolist()]
        return Sides(keys, self.profiles.take(indices))


@dataclass(frozen=True)
class Online(Sides):
    """Online sides also have the share that they leave, 0 to 1, and the card they are on."""

    share: Floats
    gpu_model: tuple[str, ...]

    def take(self, indices: Ints) -> Online:
        at = indices.tolist()
        return Online(
            [self.key[one] for one in at],
            self.profiles.take(indices),
            self.share[indices],
            tuple(self.gpu_model[one] for one in at),
        )


class Memory:
    """Kept by the process that decides, one for each series of rounds. `prices` by class of jobs;
    those of the last round that is on record do when the process is new.
    """

    def __init__(self, prices: Mapping[str, int] | None = None) -> None:
        self.prices: Mapping[str, int] = prices or {}
        # Numbers for what is no number itself: the same in every round.
        self.models: dict[Hashable, int] = {}
        self.profiles: dict[Hashable, int] = {}
        # By online side, profile of the job, and the share or what it was chosen for.
        self.judged: dict[tuple[int, int, Hashable], Judged] = {}
        self._predictor = ""
        self._forget()

    def scores(self, predictor: Predictor, online: Online, jobs: Sides) -> Scores:
        """Every online side with every job, predicted where that has not been done before."""
        self._of(predictor)
        rows = _places(online.key, self._rows)
        columns = _places(jobs.key, self._columns)
        self._make_room(len(self._rows), len(self._columns))
        self._predict(predictor, online, jobs, rows, columns)
        where = np.ix_(rows, columns)
        found = Scores(self._throughput[where], self._slowdown[where])
        if len(self._rows) > 3 * len(rows) + 1_000 or len(self._columns) > 3 * len(columns) + 100:
            self._hold_only(online, jobs, found)
        return found

    def _of(self, predictor: Predictor) -> None:
        """Another predictor has other opinions."""
        if predictor.name != self._predictor:
            self._predictor = predictor.name
            self._forget()
            self.judged = {}

    def _forget(self) -> None:
        self._rows: dict[Hashable, int] = {}
        self._columns: dict[Hashable, int] = {}
        self._throughput = np.empty((0, 0), np.float32)
        self._slowdown = np.empty((0, 0), np.float32)

    def _make_room(self, rows: int, columns: int) -> None:
        held = self._throughput.shape
        if rows <= held[0] and columns <= held[1]:
            return
        shape = max(rows + rows // 4, held[0]), max(columns + 16, held[1])
        self._throughput = _grown(self._throughput, shape)
        self._slowdown = _grown(self._slowdown, shape)

    def _predict(
        self, predictor: Predictor, online: Online, jobs: Sides, rows: Ints, columns: Ints
    ) -> None:
        """New online sides with all jobs first, then the others with new jobs."""
        known = ~np.isnan(self._throughput[np.ix_(rows, columns)])
        new = np.flatnonzero(~known.any(axis=1)) if known.size else np.arange(len(rows))
        every = np.arange(len(columns))
        self._ask(predictor, online, jobs, rows, columns, new, every)
        known[new] = True
        late = np.flatnonzero(~known.all(axis=0))
        some = np.flatnonzero(~known.all(axis=1))
        self._ask(predictor, online, jobs, rows, columns, some, late)

    def _ask(
        self,
        predictor: Predictor,
        online: Online,
        jobs: Sides,
        rows: Ints,
        columns: Ints,
        some: Ints,
        few: Ints,
    ) -> None:
        if not len(some) or not len(few):
            return
        asked = online.take(some)
        profiles = jobs.profiles.take(few)
        made = predictor.scores(asked.profiles, profiles, asked.share, asked.gpu_model)
        where = np.ix_(rows[some], columns[few])
        self._throughput[where], self._slowdown[where] = made.throughput, made.slowdown

    def _hold_only(self, online: Online, jobs: Sides, found: Scores) -> None:
        """Most of what is held is about loads and jobs that are gone."""
        self._throughput, self._slowdown = found.throughput.copy(), found.slowdown.copy()
        self._rows = {key: place for place, key in enumerate(online.key)}
        self._columns = {key: place for place, key in enumerate(jobs.key)}


def _places(keys: Sequence[Hashable], seen: dict[Hashable, int]) -> Ints:
    return np.array([seen.setdefault(key, len(seen)) for key in keys], np.int64)


def _grown(held: Floats32, shape: tuple[int, int]) -> Floats32:
    grown = np.full(shape, np.nan, np.float32)
    grown[: held.shape[0], : held.shape[1]] = held
    return grown
