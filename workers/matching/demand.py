"""The jobs of a round as columns: those that nothing tells apart are one class. Pure.

A class is (profile, priority, constraints). A job with a history of its own, GPUs that it avoids
or one that is kept for it, is a class of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from operator import attrgetter
from uuid import UUID

import numpy as np

from console.scheduling.snapshot import GpuFacts, JobFacts, Snapshot
from workers.matching import columns, weights
from workers.matching.columns import Bools, Floats, Ints
from workers.matching.job_columns import (
    CONSERVATIVE,
    KIND,
    LOADS,
    MEMORY_BYTES,
    MODEL,
    SINCE,
    STEP_S,
    WEIGHT,
)
from workers.matching.market import Slots
from workers.matching.memory import Memory, Sides
from workers.prediction.profiles import Profiles


@dataclass(frozen=True)
class Demand:
    """`jobs`: first those that wait, then those that run and may move, then those that stay.

    `profile` of each job is an index of `profiles`, `before` where it was among the jobs of the
    round before (`rounds` counts them), -1: it is new, or has changed. `job_class` is told of the
    first `len(waits)` jobs, those that are matched: which class, whether it waits, and what its age
    is worth.
    """

    jobs: Sequence[JobFacts]
    rounds: int
    before: Ints
    weight: Floats
    profile: Ints
    profiles: Sides
    job_class: Ints
    waits: Bools
    age: Ints
    classes: Classes


@dataclass(frozen=True)
class Classes:
    """`key[c]` holds for all rounds; `profile[c]` is an index of the demand's profiles.

    `members` are indices of jobs, class by class from `offset[c]` to `offset[c + 1]`: first those
    that run, then those that wait, the oldest first; `running[c]` counts the former.
    """

    examples: Sequence[JobFacts]
    key: Sequence[str]
    profile: Ints
    weight: Floats
    memory_bytes: Floats
    cpu_cores: Floats
    host_memory_bytes: Floats
    members: Ints
    offset: Ints
    running: Ints

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def count(self) -> Ints:
        return np.diff(self.offset)


def demand_of(
    waiting: Sequence[JobFacts],
    moving: Sequence[JobFacts],
    staying: Sequence[JobFacts],
    alone: Collection[UUID],
    snapshot: Snapshot,
    memory: Memory,
) -> Demand:
    """The snapshot tells how much memory the cards have on which jobs were measured."""
    jobs = [*waiting, *moving, *staying]
    matched = jobs[: len(waiting) + len(moving)]
    told = memory.jobs.of(jobs)
    example, kind = columns.compact(told[:, KIND].astype(np.int64), memory.jobs.kinds)
    loads = _loads(told[example], list(memory.jobs.models), snapshot.gpus)
    first, kind_profile = columns.groups(np.nan_to_num(loads, nan=-1.0))
    profiles = _profiles(loads[first], [jobs[index] for index in example[first].tolist()])
    profile = kind_profile[kind]
    since = told[: len(matched), SINCE]
    waits = np.arange(len(matched)) < len(waiting)
    waited_s = snapshot.at.timestamp() - since
    age = np.where(waits, weights.aging(waited_s, snapshot.aging_per_hour), 0)
    example, job_class = _grouped(matched, kind[: len(matched)], alone)
    order = np.lexsort((since, 2 * job_class + waits))
    classes = _classes(matched, example, job_class, order, profile, profiles, waits, alone)
    kept, weight = (memory.jobs.rounds, memory.jobs.before), told[:, WEIGHT]
    return Demand(jobs, *kept, weight, profile, profiles, job_class, waits, age, classes)


def slots_of(demand: Demand, pinned: Ints) -> Slots:
    """The places of each class without the running jobs `pinned`, which are indices of jobs."""
    classes = demand.classes
    members = classes.members[~np.isin(classes.members, pinned)]
    job_class = demand.job_class[members]
    count = np.bincount(job_class, minlength=len(classes))
    oldest = np.zeros(len(classes), np.int64)
    np.maximum.at(oldest, job_class, demand.age[members])
    extra = np.where(demand.waits[members], demand.age[members], weights.GUARD + oldest[job_class])
    return Slots(count, extra)


# --- profiles -----------------------------------------------------------------------------


def _loads(told: Floats, models: Sequence[str], gpus: Sequence[GpuFacts]) -> Floats:
    """[jobs, 7] what a predictor is told of each: fractions, NaN for what nobody measured."""
    model = told[:, MODEL].astype(np.int64)
    held = told[:, MEMORY_BYTES] / _card_bytes(models, gpus)[model]
    return np.column_stack([told[:, LOADS] / 100.0, held, told[:, STEP_S], model])


def _card_bytes(models: Sequence[str], gpus: Sequence[GpuFacts]) -> Floats:
    """Of the card each model stands for; of one that nobody has, the largest at hand."""
    known: dict[str, int] = dict(map(attrgetter("model", "memory_bytes"), gpus))
    most = max(known.values(), default=1)
    return np.array([known.get(model, most) for model in models], np.float64)


def _profiles(loads: Floats, examples: Sequence[JobFacts]) -> Sides:
    """What was measured above the whole card counts as the whole card."""
    loads = loads.copy()
    loads[:, :5] = np.minimum(loads[:, :5], 1.0)
    models = tuple(job.use.gpu_model for job in examples)
    key = [(*row[:-1], model) for row, model in zip(loads.tolist(), models, strict=True)]
    plain = [tuple(None if one != one else one for one in row) for row in key]
    sm, util, occupancy, bandwidth, held, step = loads[:, :6].T
    return Sides(plain, Profiles(sm, util, occupancy, bandwidth, held, step, models))


# --- classes ------------------------------------------------------------------------------


def _grouped(jobs: Sequence[JobFacts], kind: Ints, alone: Collection[UUID]) -> tuple[Ints, Ints]:
    """The first job of each class, and the class of each job: of one `kind`, but those `alone`."""
    kinds = int(kind.max(initial=-1)) + 1
    own = {job_id: number for number, job_id in enumerate(sorted(alone), 1)}
    if own:
        kind = kind + kinds * np.array([own.get(job.id, 0) for job in jobs], np.int64)
    return columns.compact(kind, kinds * (len(own) + 1))


def _needed(jobs: Sequence[JobFacts], name: str) -> Floats:
    """0 where a job does not say."""
    return np.nan_to_num(columns.numbers(jobs, name))


def _classes(
    jobs: Sequence[JobFacts],
    example: Ints,
    job_class: Ints,
    order: Ints,
    profile: Ints,
    profiles: Sides,
    waits: Bools,
    alone: Collection[UUID],
) -> Classes:
    few = [jobs[index] for index in example.tolist()]
    kinds = profile[example]
    count = np.bincount(job_class, minlength=len(few))
    return Classes(
        examples=few,
        key=[_name(job, profiles.key[at], alone) for job, at in zip(few, kinds, strict=True)],
        profile=kinds,
        weight=columns.numbers(few, "weight"),
        memory_bytes=columns.numbers(few, "use.memory_bytes"),
        cpu_cores=_needed(few, "cpu_cores"),
        host_memory_bytes=_needed(few, "host_memory_bytes"),
        members=order,
        offset=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        running=np.bincount(job_class[~waits], minlength=len(few)),
    )


def _name(job: JobFacts, profile: Hashable, alone: Collection[UUID]) -> str:
    """The same for the same class in every round and every process."""
    return _digest(
        (
            profile,
            job.weight,
            job.pools,
            job.gpu_models,
            tuple(sorted(job.labels)),
            job.proven,
            job.profile_source == CONSERVATIVE,
            job.cpu_cores,
            job.host_memory_bytes,
            str(job.id) if job.id in alone else "",
        )
    )


# Classes of a round, and some that were.
@lru_cache(8_192)
def _digest(told: Hashable) -> str:
    return blake2b(repr(told).encode(), digest_size=9).hexdigest()
