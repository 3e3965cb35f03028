"""What one round leaves to the next: predictions already made, and the prices that it ended at.

A round asks for the same predictions as the one before, but for the few GPUs whose load went to
another step of 5 % and the few profiles that are new. Whatever is remembered changes no decision,
only how long it takes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
import numpy as np
from numpy.typing import NDArray

from workers.matching.gpu_columns import GpuColumns
from workers.matching.job_columns import JobColumns
from workers.matching.kept_guests import KeptGuests
from workers.matching.kept_worths import KeptWorths, Scored
from workers.prediction.predictor import Predictor, Scores
from workers.prediction.profiles import Floats, Ints, Profiles

Floats32: TypeAlias = NDArray[np.float32]


_NONE = np.empty(0)
NOBODY: Final = Profiles(_NONE, _NONE, _NONE, _NONE, _NONE, _NONE, ())


class Judged(msgspec.Struct, frozen=True, gc=False):
    """What the predictor says of one pair at one share, with the ends of 90 % intervals; `said`
    is the same as a sentence."""

    share_percent: float
    throughput: float
    throughput_low: float
    throughput_high: float
    slowdown: float
    slowdown_low: float
    slowdown_high: float
    source: str
    flags: str
    said: str


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
        self.jobs = JobColumns()
        self.gpus = GpuColumns()
        self.profiles: dict[Hashable, int] = {}
        # By online side, profile of the job, and the share or what it was chosen for.
        self.judged: dict[tuple[int, int, Hashable], Judged] = {}
        self.guests = KeptGuests()
        self.worths = KeptWorths()
        self._predictor = ""
        self._forget()

    def scores(self, predictor: Predictor, online: Online, jobs: Sides) -> Scored:
        """Every online side with every job, predicted where that has not been done before."""
        if predictor.name != self._predictor:  # which has other opinions
            self._predictor = predictor.name
            self._forget()
            self.judged.clear()
            self.guests.forget()
            self.worths.forget()
        new = np.flatnonzero([key not in self._rows for key in online.key])
        if any(key not in self._columns for key in jobs.key) or self._is_full(len(online.key)):
            self._begin_anew(predictor, online, jobs, new)
        elif len(new):
            self._add_rows(predictor, online.take(new))
        return Scored(
            self._throughput,
            self._slowdown,
            np.array([self._rows[key] for key in online.key], np.int64),
            np.array([self._columns[key] for key in jobs.key], np.int64),
        )

    def _forget(self) -> None:
        self._rows: dict[Hashable, int] = {}
        self._columns: dict[Hashable, int] = {}
        self._jobs = Sides((), NOBODY)
        self._throughput = np.empty((0, 0), np.float32)
        self._slowdown = np.empty((0, 0), np.float32)

    def _is_full(self, asked: int) -> bool:
        """Most of what is held is about loads that are gone."""
        return len(self._rows) > 2 * asked + 1_000

    def _add_rows(self, predictor: Predictor, online: Online) -> None:
        """New online sides with all jobs that are held, asked for or not."""
        made, held = _ask(predictor, online, self._jobs), len(self._rows)
        self._throughput = _with(self._throughput, held, made.throughput)
        self._slowdown = _with(self._slowdown, held, made.slowdown)
        for key in online.key:
            self._rows[key] = len(self._rows)

    def _begin_anew(self, predictor: Predictor, online: Online, jobs: Sides, new: Ints) -> None:
        """Hold what is asked for and nothing else; what is known of it need not be asked."""
        known = np.setdiff1d(np.arange(len(online.key)), new)
        seen = np.array([key in self._columns for key in jobs.key], bool)
        same, late = np.flatnonzero(seen), np.flatnonzero(~seen)
        throughput = np.empty((len(online.key), len(jobs.key)), np.float32)
        slowdown = np.empty_like(throughput)
        if len(known) and len(same):
            held = np.ix_(
                [self._rows[online.key[at]] for at in known.tolist()],
                [self._columns[jobs.key[at]] for at in same.tolist()],
            )
            throughput[np.ix_(known, same)] = self._throughput[held]
            slowdown[np.ix_(known, same)] = self._slowdown[held]
        for rows, columns in ((new, np.arange(len(jobs.key))), (known, late)):
            if len(rows) and len(columns):
                made = _ask(predictor, online.take(rows), jobs.take(columns))
                throughput[np.ix_(rows, columns)] = made.throughput
                slowdown[np.ix_(rows, columns)] = made.slowdown
        self._throughput, self._slowdown, self._jobs = throughput, slowdown, jobs
        self._rows = {key: place for place, key in enumerate(online.key)}
        self._columns = {key: place for place, key in enumerate(jobs.key)}


def _with(table: Floats32, held: int, new: Floats32) -> Floats32:
    """`new` rows after the first `held`, in place where there is room: most rounds bring some."""
    needed = held + len(new)
    if needed > len(table):
        grown = np.empty((needed + needed // 2, table.shape[1]), np.float32)
        grown[:held] = table[:held]
        table = grown
    table[held:needed] = new
    return table


def _ask(predictor: Predictor, online: Online, jobs: Sides) -> Scores:
    return predictor.scores(online.profiles, jobs.profiles, online.share, online.gpu_model)
