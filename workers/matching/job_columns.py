"""What the jobs of a round say in numbers, read once as long as nothing of a job changes. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter
from typing import Final

import numpy as np

from console.scheduling.snapshot import JobFacts
from workers.matching import columns
from workers.matching.columns import Floats, Ints
from workers.matching.kept_columns import KeptColumns

CONSERVATIVE: Final = "conservative"
# Which column is what; the first four are loads in percent.
LOADS: Final = slice(0, 4)
MEMORY_BYTES, STEP_S, MODEL, SINCE = 4, 5, 6, 7
WEIGHT: Final = 9
# What makes jobs a class, as a number: their loads, and from column 8 on their constraints.
KIND: Final = 14
_LOADS: Final = ("sm_percent", "util_percent", "occupancy_percent", "bandwidth_percent")


class JobColumns:
    """`models` numbers the GPU models on which jobs were measured, the same in every round."""

    def __init__(self) -> None:
        self.models: dict[str, int] = {}
        self._named: dict[object, int] = {}
        self._kinds: dict[bytes, int] = {}
        self._kept = KeptColumns(self._read, self._kinds)

    @property
    def kinds(self) -> int:
        return len(self._kinds)

    @property
    def before(self) -> Ints:
        """Where each of the last jobs was in the round before, -1 for a new one."""
        return self._kept.before

    @property
    def rounds(self) -> int:
        return self._kept.rounds

    def of(self, jobs: Sequence[JobFacts]) -> Floats:
        """[jobs, columns] NaN for what nobody measured; a need that a job does not say is 0."""
        return self._kept.of(jobs)

    def _read(self, jobs: Sequence[JobFacts]) -> Floats:
        uses = list(map(attrgetter("use"), jobs))
        named = map(attrgetter("pools", "gpu_models", "labels"), jobs)
        submitted = map(attrgetter("submitted_at"), jobs)
        every = (
            *(columns.numbers(uses, name) for name in _LOADS),
            columns.numbers(uses, "memory_bytes"),
            columns.numbers(uses, "step_s"),
            columns.codes(map(attrgetter("gpu_model"), uses), self.models),
            list(map(datetime.timestamp, submitted)),
            columns.codes(named, self._named),
            columns.numbers(jobs, "weight"),
            columns.numbers(jobs, "proven"),
            [job.profile_source == CONSERVATIVE for job in jobs],
            np.nan_to_num(columns.numbers(jobs, "cpu_cores")),
            np.nan_to_num(columns.numbers(jobs, "host_memory_bytes")),
        )
        told = np.array(every, np.float64).T
        return np.column_stack([told, self._kind(told)])

    def _kind(self, told: Floats) -> Ints:
        plain = np.nan_to_num(np.delete(told, SINCE, axis=1), nan=-1.0)
        first, group = columns.groups(plain)
        codes = columns.codes((row.tobytes() for row in plain[first]), self._kinds)
        return np.array(codes, np.int64)[group]
