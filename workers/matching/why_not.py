"""Why a GPU stays free and a job waits, and what would change it. Pure.

Of all that stands between a job and the open GPUs the nearest is told: what it meets where it gets
furthest, in the order of `problem.BARRIERS`. GPUs of a row and jobs of a class share their reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from console.scheduling import priorities
from console.scheduling.plan import WORDS, Code, Kind, Verdict
from console.scheduling.snapshot import GpuFacts, JobFacts
from workers.matching import explain, weights
from workers.matching.columns import Bools, Floats, Ints
from workers.matching.market import Worths
from workers.matching.matched import Matched
from workers.matching.problem import BARRIERS, Codes

# A shortage of memory is told in steps of this.
_MEMORY_STEP_BYTES: Final = 1 << 29
# Classes are looked at so many at a time.
_PIECE: Final = 32
_NAMED: Final = (Code.POOL, Code.MODEL, Code.LABELS)


class WhyNot:
    def __init__(self, matched: Matched) -> None:
        self.matched, self.problem = matched, matched.problem
        self.rows, self.classes = self.problem.rows, self.problem.classes
        self.every = np.arange(len(self.classes))

    # --- GPUs -----------------------------------------------------------------------------

    def unused(self) -> Iterator[Verdict]:
        """One for each GPU that is free and stays so."""
        deal, gpus = self.matched.deal, self.problem.seats.gpus
        free = np.ones(len(self.problem.field.free), bool)
        free[deal.placed.seat] = False
        free[deal.to[deal.to < len(free)]] = False
        left = np.flatnonzero(free)
        row = self.problem.row_of[left]
        for seat in left[row < 0].tolist():
            yield Verdict(
                Kind.UNUSED, Code.NO_SHARE, explain.no_share(gpus[seat]), gpu_id=gpus[seat].id
            )
        told = dict(self._of_rows(np.unique(row[row >= 0])))
        for seat, at in zip(left[row >= 0].tolist(), row[row >= 0].tolist(), strict=True):
            yield Verdict(Kind.UNUSED, *told[at], gpu_id=gpus[seat].id)

    def _of_rows(self, rows: Ints) -> Iterator[tuple[int, tuple[Code, str]]]:
        if not len(self.every):
            yield from ((row, (Code.NO_JOBS, explain.NO_JOBS)) for row in rows.tolist())
            return
        wanted = (self.problem.worth[rows] > 0).any(axis=1)
        for row in rows[wanted].tolist():
            yield row, (Code.OUTBID, explain.NOT_NEEDED)
        for row in rows[~wanted].tolist():
            yield row, self._of_row(row)

    def _of_row(self, row: int) -> tuple[Code, str]:
        one = np.array([row])
        code = _nearest(self.problem.barriers(one, self.every))
        seat = int(self.rows.first[row])
        slowdown = float(np.nanmin(self.problem.slowdown(one, self.every)))
        free_bytes = float(self.problem.seats.quota_bytes[seat])
        gpu, jobs = self.problem.seats.gpus[seat], int(self.classes.count.sum())
        return code, explain.gpu_barrier(code, gpu, jobs, free_bytes, slowdown)

    # --- jobs -----------------------------------------------------------------------------

    def waiting(self) -> Iterator[Verdict]:
        """One for each job that waits, takes part and got nothing."""
        deal, jobs = self.matched.deal, self.problem.demand.jobs
        left = np.ones(len(self.problem.field.waiting), bool)
        left[deal.placed.job] = False
        left[deal.following.job] = False
        job_class = self.problem.demand.job_class[: len(left)]
        told = dict(self._of_classes(np.unique(job_class[left])))
        for at in np.flatnonzero(left).tolist():
            yield Verdict(Kind.WAIT, *told[int(job_class[at])], job_id=jobs[at].id)

    def _of_classes(self, some: Ints) -> Iterator[tuple[int, tuple[Code, str]]]:
        """Why jobs of some classes wait."""
        for start in range(0, len(some), _PIECE):
            few = some[start : start + _PIECE]
            worths = np.ascontiguousarray(self.problem.worth[np.ix_(self._open, few)].T)
            for number, worth in zip(few.tolist(), worths, strict=True):
                yield number, self._of_class(number, worth)

    def _of_class(self, number: int, worth: Worths) -> tuple[Code, str]:
        """`worth` is that on the open rows."""
        job = self.classes.examples[number]
        if not len(self._open):
            return Code.NO_GPUS, self._none_open(job) or explain.NO_GPUS
        if (worth > 0).any():
            return Code.OUTBID, self._outbid(number, worth)
        code = _nearest(self.problem.barriers(self._open, np.array([number])))
        gpus = int(self.rows.count[self._open].sum())
        closed = self._none_open(job) if code in _NAMED else ""
        said = closed or explain.job_barrier(code, job, gpus)
        return code, f"{said} {self._change(code, number)}".strip()

    @cached_property
    def _open(self) -> Ints:
        """Rows that take new work, or would if nobody ran there."""
        return np.flatnonzero(self.rows.open)

    def _none_open(self, job: JobFacts) -> str:
        """When it may only use GPUs that are closed or taken for now: which, and why they are."""
        reasons = Counter[str]()
        for (gpu, why), count in self._shut.items():
            if _may_use(job, gpu):
                reasons[why] += count
        if not reasons:
            return ""
        return explain.none_open(job.pools, reasons.total(), reasons.most_common())

    @cached_property
    def _shut(self) -> Counter[tuple[_Asked, str]]:
        """How many GPUs of each kind are closed or taken for now, by the reason: every kind of job
        is told of the same ones."""
        field = self.problem.field
        shut = [(_asked(gpu), WORDS[why.code].lower()) for gpu, why in field.closed]
        shut += [(_asked(guest.gpu), explain.TAKEN) for guest in field.guests[field.moving :]]
        return Counter(shut)

    # --- what would change it -------------------------------------------------------------

    def _change(self, code: Code, number: int) -> str:
        """The least that would have to change for it to fit somewhere, where one thing is."""
        near = self._open[self._only_by(code, number)]
        if not len(near):
            return ""
        gpus = int(self.rows.count[near].sum())
        if code is Code.MEMORY:
            return self._less_memory(near, number)
        if code is Code.SLOWDOWN:
            slowdown = self.problem.slowdown(near, np.array([number]))
            seat = int(self.rows.first[near[int(slowdown.argmin())]])
            return explain.less_slowdown(float(slowdown.min()), self.problem.seats.gpus[seat])
        if code is Code.CONSERVATIVE:
            return explain.once_measured(gpus)
        return explain.once_proven(gpus) if code is Code.UNPROVEN else ""

    def _only_by(self, code: Code, number: int) -> Bools:
        """Open rows where nothing else than `code` stands between."""
        found = self.problem.all_barriers(self._open, np.array([number]))
        alone = np.ones(len(self._open), bool)
        for other, forbids in found:
            if other is not code:
                alone &= ~forbids[:, 0]
        return alone

    def _less_memory(self, near: Ints, number: int) -> str:
        left = self.problem.seats.quota_bytes[self.rows.first[near]]
        short = self.classes.memory_bytes[number] - left
        less = float(np.ceil(short.min() / _MEMORY_STEP_BYTES) * _MEMORY_STEP_BYTES)
        return explain.less_memory(int(self.rows.count[near[short <= less]].sum()), less)

    def _outbid(self, number: int, worth: Worths) -> str:
        """Who got the GPU on which the job would do best, and what would turn the tables."""
        rows = self._open[worth > 0]
        fits = int(self.rows.count[rows].sum())
        row = int(self._open[int(worth.argmax())])
        winner = self._winner.get(row)
        if winner is None:
            said = explain.outbid(fits)
        else:
            gpu, job = winner
            speeds = self.problem.throughput(np.array([row]), np.array([number, job]))
            names = self.problem.seats.gpus[gpu].name, self.classes.examples[job].name
            said = explain.outbid_by(fits, *names, *speeds.tolist())
        priority = self._priority(rows, number)
        return said if priority is None else f"{said} {explain.higher_priority(priority)}"

    @cached_property
    def _winner(self) -> dict[int, tuple[int, int]]:
        """Of each row that is given away: its first seat, and the class that has most of it."""
        solution = self.matched.solution
        pairs = zip(solution.row.tolist(), solution.job_class.tolist(), strict=True)
        return {row: (int(self.rows.first[row]), number) for row, number in pairs}

    def _priority(self, rows: Ints, number: int) -> int | None:
        """The lowest that would outbid somebody, by the prices of the GPUs that are free."""
        free = rows[self.rows.own[rows] < 0]
        if not len(free):
            return None
        speed = self.problem.throughput(free, np.array([number])).astype(np.float64)
        slowdown = self.problem.slowdown(free, np.array([number])).astype(np.float64)
        lost = -weights.worth(np.zeros(1), slowdown, np.ones(1))
        needed = (self._row_price[free] - self._age(number)) / weights.SCALE + lost
        present = float(self.classes.weight[number])
        return priorities.priority_for(max(present, float((needed / speed).min())))

    def _age(self, number: int) -> int:
        """What the longest waiting of the class that got nothing is worth more."""
        start, end = self.classes.offset[number], self.classes.offset[number + 1]
        members = self.classes.members[start:end]
        waits = members[self.problem.demand.waits[members]]
        return int(self.problem.demand.age[waits].min(initial=0))

    @cached_property
    def _row_price(self) -> Floats:
        """What the plan would lose without a GPU of each row, in millionths."""
        price = np.zeros(len(self.rows))
        solution, lowest = self.matched.solution, self.matched.proof.lowest
        worth = self.problem.worth[solution.row, solution.job_class]
        price[solution.row] = np.maximum(0, worth - lowest[solution.job_class])
        return price


def _nearest(barriers: Codes) -> Code:
    """The barrier at which the nearest failed, since those before it were passed. Where none
    stands the pair is worth less than the smallest part of a GPU."""
    return BARRIERS[int(barriers.max()) - 1]


class _Asked(NamedTuple):
    """What a job may ask of a GPU by name."""

    pool: str
    model: str
    labels: frozenset[str]


def _asked(gpu: GpuFacts) -> _Asked:
    return _Asked(gpu.pool, gpu.model, gpu.labels)


def _may_use(job: JobFacts, gpu: _Asked) -> bool:
    return (
        (not job.pools or gpu.pool in job.pools)
        and (not job.gpu_models or gpu.model in job.gpu_models)
        and job.labels <= gpu.labels
    )
