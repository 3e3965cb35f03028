"""The matching problem as arrays: rows of like GPUs, classes of like jobs, the worth of each pair.

Offline jobs come in few kinds, and so do GPUs once their load is rounded to 5 %: a matching of
individuals and one of rows and classes with capacities have the same optimum, because members of
a class are interchangeable. A GPU or job with a history of its own (a job running there, a recent
eviction, a move) makes a row or class of its own. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from console.scheduling.plan import Code
from console.scheduling.snapshot import GpuFacts, JobFacts, Use
from workers.prediction import analytic
from workers.reallocation import shares

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int8]

# Loads are rounded up to this step: safe, and it makes rows alike. Percent.
LOAD_STEP: Final = 5.0
MEMORY_STEP_BYTES: Final = 64 << 20
# A pair that would slow the online side by more is not made. Our choice, below the 1.5 × SLO at
# which a node freezes offline work by default.
MOST_SLOWDOWN: Final = 1.35
# A pair in which the job would run slower than this is not worth its risk. Our choice.
LEAST_THROUGHPUT: Final = 0.05
# Weights are whole millionths, so that a plan is proven optimal with a gap of exactly zero.
SCALE: Final = 1_000_000

# What can stand between a job and a GPU, in the order in which it is looked at.
BARRIERS: Final = (
    None,
    Code.POOL,
    Code.MODEL,
    Code.MEMORY,
    Code.AVOID,
    Code.HELD,
    Code.SLOWDOWN,
    Code.WORTHLESS,
)
_CODE: Final[Mapping[Code | None, int]] = {code: number for number, code in enumerate(BARRIERS)}


@dataclass(frozen=True)
class Rows:
    """GPUs that nothing tells apart; `members[r]` are indices into the GPUs given.

    `online` as fractions of a GPU, `share_percent` what offline work would get.
    """

    online: analytic.Load
    share_percent: Floats
    quota_bytes: Floats
    models: tuple[str, ...]
    pools: tuple[str, ...]
    special: tuple[GpuFacts | None, ...]
    members: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> Ints:
        return np.array([len(members) for members in self.members], np.int64)


@dataclass(frozen=True)
class Classes:
    """Jobs that nothing tells apart; `members[c]` are indices into the jobs given, oldest first."""

    load: analytic.Load
    memory_bytes: Floats
    weight: Floats
    examples: tuple[JobFacts, ...]
    members: tuple[tuple[int, ...], ...]

    @property
    def count(self) -> Ints:
        return np.array([len(members) for members in self.members], np.int64)


@dataclass(frozen=True)
class Problem:
    """`worth[r, c]` in millionths, 0 where `barrier[r, c]` (an index of BARRIERS) stands."""

    rows: Rows
    classes: Classes
    worth: Ints
    throughput: Floats
    slowdown: Floats
    barrier: Codes

    @property
    def pairs(self) -> int:
        """Feasible pairs of one GPU and one job."""
        open_ = self.barrier == 0
        return int(self.rows.count @ open_ @ self.classes.count)


def rows_of(gpus: Sequence[GpuFacts], special: frozenset[int] = frozenset()) -> Rows:
    """Group `gpus`; those whose id is `special` or that are held stand alone."""
    keys: dict[tuple[object, ...], list[int]] = {}
    for index, gpu in enumerate(gpus):
        keys.setdefault(_row_key(gpu, gpu.id in special or gpu.held_for is not None), []).append(
            index
        )
    firsts = [gpus[members[0]] for members in keys.values()]
    return Rows(
        online=load_of([_rounded(gpu.online) for gpu in firsts]),
        share_percent=share_of(firsts),
        quota_bytes=np.array([quota_of(gpu) for gpu in firsts], np.float64),
        models=tuple(gpu.model for gpu in firsts),
        pools=tuple(gpu.pool for gpu in firsts),
        special=tuple(gpu if key[0] else None for key, gpu in zip(keys, firsts, strict=True)),
        members=tuple(tuple(members) for members in keys.values()),
    )


def _row_key(gpu: GpuFacts, alone: bool) -> tuple[object, ...]:
    use = _rounded(gpu.online)
    return (
        gpu.id if alone else 0,
        use.sm_percent,
        use.util_percent,
        use.bandwidth_percent,
        _up(gpu.online_peak_percent),
        quota_of(gpu),
        gpu.model,
        gpu.pool,
    )


def _rounded(use: Use) -> Use:
    return Use(
        _up(use.sm_percent), _up(use.util_percent), _up(use.bandwidth_percent), use.memory_bytes
    )


def _up(percent: float) -> float:
    return min(100.0, float(np.ceil(percent / LOAD_STEP)) * LOAD_STEP)


def share_of(gpus: Sequence[GpuFacts]) -> Floats:
    """The SM share in percent that each GPU would give; 0 where online leaves too little."""
    peak = np.array([_up(gpu.online_peak_percent) for gpu in gpus], np.float64)
    reserve = np.array([gpu.rules.sm_reserve_percent for gpu in gpus], np.float64)
    return shares.complement(peak, reserve)


def quota_of(gpu: GpuFacts) -> int:
    """What offline work may hold: the card less what online holds at its peak, less the reserve."""
    reserve = gpu.memory_bytes * gpu.rules.memory_reserve_percent / 100.0
    left = max(0.0, gpu.memory_bytes - gpu.online.memory_bytes - reserve)
    return int(left // MEMORY_STEP_BYTES) * MEMORY_STEP_BYTES


def classes_of(jobs: Sequence[JobFacts], special: frozenset[UUID] = frozenset()) -> Classes:
    """Group `jobs`, oldest first; those whose id is `special` stand alone."""
    keys: dict[tuple[object, ...], list[int]] = {}
    for index in sorted(range(len(jobs)), key=lambda index: (jobs[index].submitted_at, index)):
        job = jobs[index]
        alone = job.id if job.id in special else None
        key = (alone, job.use, job.weight, job.pools, job.gpu_models)
        keys.setdefault(key, []).append(index)
    examples = [jobs[members[0]] for members in keys.values()]
    return Classes(
        load=load_of([job.use for job in examples]),
        memory_bytes=np.array([job.use.memory_bytes for job in examples], np.float64),
        weight=np.array([job.weight for job in examples], np.float64),
        examples=tuple(examples),
        members=tuple(tuple(members) for members in keys.values()),
    )


def load_of(uses: Sequence[Use]) -> analytic.Load:
    """As fractions; what was measured above the whole card counts as the whole card."""
    columns = [(use.sm_percent, use.util_percent, use.bandwidth_percent) for use in uses]
    whole = np.clip(np.array(columns, np.float64).reshape(-1, 3) / 100.0, 0.0, 1.0)
    return analytic.Load(whole[:, 0], whole[:, 1], whole[:, 2])


def problem_of(
    rows: Rows,
    classes: Classes,
    avoid: frozenset[tuple[UUID, int]] = frozenset(),
) -> Problem:
    """Score every row with every class, and say what stands between them."""
    online = analytic.Load(*(column[:, None] for column in rows.online))
    job = analytic.Load(*(column[None, :] for column in classes.load))
    estimate = analytic.estimate(online, job, rows.share_percent[:, None] / 100.0)
    barrier = _barriers(rows, classes, avoid)
    for code, forbidden in (
        (Code.SLOWDOWN, estimate.slowdown > MOST_SLOWDOWN),
        (Code.WORTHLESS, estimate.throughput < LEAST_THROUGHPUT),
    ):
        barrier[(barrier == 0) & forbidden] = _CODE[code]
    worth = np.rint(SCALE * estimate.throughput * classes.weight).astype(np.int64)
    worth[barrier > 0] = 0
    return Problem(rows, classes, worth, estimate.throughput, estimate.slowdown, barrier)


def _barriers(rows: Rows, classes: Classes, avoid: frozenset[tuple[UUID, int]]) -> Codes:
    """[rows, classes], the first barrier of each pair that needs no estimate."""
    barrier = np.zeros((len(rows.members), len(classes.members)), np.int8)
    for code, forbidden in (
        (Code.POOL, _not_among(rows.pools, [job.pools for job in classes.examples])),
        (Code.MODEL, _not_among(rows.models, [job.gpu_models for job in classes.examples])),
        (Code.MEMORY, classes.memory_bytes[None, :] > rows.quota_bytes[:, None]),
        (Code.AVOID, _avoided(rows, classes, avoid)),
        (Code.HELD, _held(rows, classes)),
    ):
        barrier[(barrier == 0) & forbidden] = _CODE[code]
    return barrier


def _not_among(names: Sequence[str], allowed: Sequence[tuple[str, ...]]) -> NDArray[np.bool_]:
    """[names, allowed] True where `allowed` names some, but not this one."""
    column = np.array(names, object)
    forbidden = np.zeros((len(names), len(allowed)), np.bool_)
    for index, few in enumerate(allowed):
        if few:
            forbidden[:, index] = ~np.isin(column, few)
    return forbidden


def _avoided(rows: Rows, classes: Classes, avoid: frozenset[tuple[UUID, int]]) -> NDArray[np.bool_]:
    where = np.zeros((len(rows.members), len(classes.members)), np.bool_)
    row_of = {gpu.id: index for index, gpu in enumerate(rows.special) if gpu}
    class_of = {job.id: index for index, job in enumerate(classes.examples)}
    for job_id, gpu_id in avoid:
        if job_id in class_of and gpu_id in row_of:
            where[row_of[gpu_id], class_of[job_id]] = True
    return where


def _held(rows: Rows, classes: Classes) -> NDArray[np.bool_]:
    where = np.zeros((len(rows.members), len(classes.members)), np.bool_)
    for row, gpu in enumerate(rows.special):
        if gpu and gpu.held_for:
            where[row] = [job.id != gpu.held_for for job in classes.examples]
    return where
