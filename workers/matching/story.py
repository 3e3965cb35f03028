"""A solved problem told pair by pair, GPU by GPU, job by job. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from console.scheduling.plan import Code, Kind, Placing, Verdict
from console.scheduling.snapshot import GpuFacts, JobFacts
from workers.matching import explain
from workers.matching.problem import BARRIERS, SCALE, Codes, Ints, Problem


@dataclass(frozen=True)
class Story:
    """The assignment `x` of `problem`, which was made of `gpus` and `jobs`, with class prices."""

    problem: Problem
    gpus: Sequence[GpuFacts]
    jobs: Sequence[JobFacts]
    x: Ints
    price: Ints

    @cached_property
    def pairs(self) -> dict[int, int]:
        """GPU index → job index: members of a row and of a class are dealt out in order."""
        rows = [iter(members) for members in self.problem.rows.members]
        classes = [iter(members) for members in self.problem.classes.members]
        return {
            next(rows[row]): next(classes[column])
            for row, column in np.argwhere(self.x > 0).tolist()
            for _ in range(int(self.x[row, column]))
        }

    @cached_property
    def _row_of(self) -> dict[int, int]:
        return _places(self.problem.rows.members)

    @cached_property
    def _class_of(self) -> dict[int, int]:
        return _places(self.problem.classes.members)

    def placings(self) -> Iterator[Placing]:
        for gpu, job in self.pairs.items():
            row, column = self._row_of[gpu], self._class_of[job]
            yield Placing(
                job_id=self.jobs[job].id,
                gpu_id=self.gpus[gpu].id,
                share_percent=float(self.problem.rows.share_percent[row]),
                quota_bytes=int(self.problem.rows.quota_bytes[row]),
                throughput=float(self.problem.throughput[row, column]),
            )

    def verdicts(self) -> Iterator[Verdict]:
        """One for each pair, then one for each GPU and each job that is left."""
        for gpu, job in self.pairs.items():
            yield self._placed(gpu, job)
        for row, gpus in enumerate(self.problem.rows.members):
            yield from self._unused(row, [gpu for gpu in gpus if gpu not in self.pairs])
        placed = set(self.pairs.values())
        for column, jobs in enumerate(self.problem.classes.members):
            yield from self._waiting(column, [job for job in jobs if job not in placed])

    # --- a pair ---------------------------------------------------------------------------

    def _placed(self, gpu: int, job: int) -> Verdict:
        row, column = self._row_of[gpu], self._class_of[job]
        throughput = float(self.problem.throughput[row, column])
        slowdown = float(self.problem.slowdown[row, column])
        share = float(self.problem.rows.share_percent[row])
        return Verdict(
            Kind.PLACE,
            Code.BEST,
            f"{explain.pair(throughput, share, slowdown)} {self._runner_up(row, column)}",
            job_id=self.jobs[job].id,
            gpu_id=self.gpus[gpu].id,
            weight=float(self.problem.worth[row, column]) / SCALE,
            throughput=throughput,
            slowdown=slowdown,
            share_percent=share,
        )

    def _runner_up(self, row: int, column: int) -> str:
        """The next best job for the GPU at the prices of the plan, and what it would cost."""
        worth = self.problem.worth[row]
        gain = np.where(worth > 0, worth - self.price, -1)
        own, gain[column] = gain[column], -1
        other = int(gain.argmax())
        if gain[other] < 0:
            return explain.NO_OTHER
        job = self.problem.classes.examples[other]
        loss = float(own - max(0, gain[other])) / SCALE
        return explain.runner_up(job.name, float(self.problem.throughput[row, other]), loss)

    # --- what is left ---------------------------------------------------------------------

    def _unused(self, row: int, gpus: Sequence[int]) -> Iterator[Verdict]:
        if gpus:
            code, why = self._why_unused(row)
            for gpu in gpus:
                yield Verdict(Kind.UNUSED, code, why, gpu_id=self.gpus[gpu].id)

    def _why_unused(self, row: int) -> tuple[Code, str]:
        gpu = self.gpus[self.problem.rows.members[row][0]]
        if not self.jobs:
            return Code.NO_JOBS, explain.NO_JOBS
        if self.problem.rows.share_percent[row] == 0:
            return Code.NO_SHARE, explain.no_share(gpu)
        if (code := _nearest(self.problem.barrier[row])) is None:
            return Code.OUTBID, explain.NOT_NEEDED
        return code, explain.gpu_barrier(code, gpu, row, self.problem)

    def _waiting(self, column: int, jobs: Sequence[int]) -> Iterator[Verdict]:
        if jobs:
            code, why = self._why_waiting(column)
            for job in jobs:
                yield Verdict(Kind.WAIT, code, why, job_id=self.jobs[job].id)

    def _why_waiting(self, column: int) -> tuple[Code, str]:
        if not self.gpus:
            return Code.NO_GPUS, explain.NO_GPUS
        if (code := _nearest(self.problem.barrier[:, column])) is None:
            return Code.OUTBID, self._outbid(column)
        job = self.problem.classes.examples[column]
        return code, explain.job_barrier(code, job, len(self.gpus), self.problem)

    def _outbid(self, column: int) -> str:
        """Who got the GPU on which the job would do best."""
        feasible = self.problem.barrier[:, column] == 0
        fits = int(self.problem.rows.count[feasible].sum())
        row = int(np.where(feasible, self.problem.worth[:, column], -1).argmax())
        gpu = self.problem.rows.members[row][0]
        if gpu not in self.pairs:
            return explain.outbid(fits)
        winner = self.pairs[gpu]
        own, theirs = self.problem.throughput[row, [column, self._class_of[winner]]].tolist()
        names = self.gpus[gpu].name, self.jobs[winner].name
        return explain.outbid_by(fits, names, own, theirs)


def _nearest(barrier: Codes) -> Code | None:
    """The barrier at which the nearest partner failed, since those before it were passed; None
    when one failed at none."""
    return None if (barrier == 0).any() else BARRIERS[int(barrier.max())]


def _places(members: Sequence[Sequence[int]]) -> dict[int, int]:
    return {index: place for place, group in enumerate(members) for index in group}
