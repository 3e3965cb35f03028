"""One sentence for each pair that was chosen and for each GPU and job that was left out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from console.scheduling.plan import Code, Kind, Placing, Verdict
from console.scheduling.snapshot import GpuFacts, JobFacts
from workers.matching.moves import Guest, Move
from workers.matching.problem import (
    BARRIERS,
    LEAST_THROUGHPUT,
    MOST_SLOWDOWN,
    SCALE,
    Ints,
    Problem,
)


@dataclass(frozen=True)
class Story:
    """A solved problem, and which GPU got which job: `pairs` of indices into `gpus` and `jobs`."""

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
    def row_of(self) -> dict[int, int]:
        return _places(self.problem.rows.members)

    @cached_property
    def class_of(self) -> dict[int, int]:
        return _places(self.problem.classes.members)

    def verdicts(self) -> Iterator[Verdict]:
        """One for each pair, then for each GPU and each job that is left."""
        for gpu, job in self.pairs.items():
            yield self._placed(gpu, job)
        for row, members in enumerate(self.problem.rows.members):
            code, why = self._unused(row)
            for gpu in members:
                if gpu not in self.pairs:
                    yield Verdict(Kind.UNUSED, code, why, gpu_id=self.gpus[gpu].id)
        placed = set(self.pairs.values())
        for column, members in enumerate(self.problem.classes.members):
            left = [job for job in members if job not in placed]
            code, why = self._waits(column) if left else (Code.BEST, "")
            for job in left:
                yield Verdict(Kind.WAIT, code, why, job_id=self.jobs[job].id)

    def placings(self) -> Iterator[Placing]:
        for gpu, job in self.pairs.items():
            row, column = self.row_of[gpu], self.class_of[job]
            yield Placing(
                job_id=self.jobs[job].id,
                gpu_id=self.gpus[gpu].id,
                share_percent=float(self.problem.rows.share[row]) * 100.0,
                quota_bytes=int(self.problem.rows.quota_bytes[row]),
                throughput=float(self.problem.throughput[row, column]),
            )

    # --- a pair ---------------------------------------------------------------------------

    def _placed(self, gpu: int, job: int) -> Verdict:
        row, column = self.row_of[gpu], self.class_of[job]
        problem = self.problem
        throughput = float(problem.throughput[row, column])
        slowdown = float(problem.slowdown[row, column])
        share = float(problem.rows.share[row]) * 100.0
        why = (
            f"Runs at ≈ {throughput:.0%} of its speed alone on {share:.0f} % of the SMs;"
            f" online slows by ≈ {slowdown - 1:.0%}. {self._runner_up(row, column)}"
        )
        return Verdict(
            Kind.PLACE,
            Code.BEST,
            why,
            job_id=self.jobs[job].id,
            gpu_id=self.gpus[gpu].id,
            weight=float(problem.worth[row, column]) / SCALE,
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
            return "No other job that waits could run there."
        job = self.problem.classes.examples[other]
        throughput = self.problem.throughput[row, other]
        loss = (own - max(0, gain[other])) / SCALE
        cost = f"{loss:.2f} GPUs less in all" if loss >= 0.005 else "worth as much in all"
        return f"Next best there: {job.name} (≈ {throughput:.0%}), {cost}."

    # --- a GPU that stays free ------------------------------------------------------------

    def _unused(self, row: int) -> tuple[Code, str]:
        if not self.jobs:
            return Code.NO_JOBS, "No job waits that it could take."
        gpu = self.gpus[self.problem.rows.members[row][0]]
        if self.problem.rows.share[row] == 0:
            return Code.NO_SHARE, _no_share(gpu)
        barrier = self.problem.barrier[row]
        if (barrier == 0).any():
            return Code.OUTBID, "Every job that it could take runs elsewhere for more or as much."
        # The barrier that the nearest job failed at: those before it were passed.
        nearest = int(barrier.argmax())
        code = BARRIERS[barrier[nearest]] or Code.OUTBID
        return code, self._gpu_barrier(code, row, nearest)

    def _gpu_barrier(self, code: Code, row: int, column: int) -> str:
        count = len(self.jobs)
        problem, gpu = self.problem, self.gpus[self.problem.rows.members[row][0]]
        if code is Code.POOL:
            return f"None of the {count} jobs that wait may run in pool {gpu.pool}."
        if code is Code.MODEL:
            return f"None of the {count} jobs that wait may run on a {gpu.model}."
        if code is Code.MEMORY:
            least = _gib(min(problem.classes.memory_bytes))
            free = _gib(problem.rows.quota_bytes[row])
            return f"It has {free} for offline work; the smallest job that waits needs {least}."
        if code is Code.AVOID:
            return "The jobs that fit were taken off this GPU not long ago."
        if code is Code.HELD:
            return "Kept free for a job that is moved here."
        if code is Code.SLOWDOWN:
            slowdown = problem.slowdown[row].min() - 1
            return f"Any job would slow the online side by ≈ {slowdown:.0%} or more."
        return f"Any job would run below {LEAST_THROUGHPUT:.0%} of its speed alone."

    # --- a job that waits -----------------------------------------------------------------

    def _waits(self, column: int) -> tuple[Code, str]:
        if not self.gpus:
            return Code.NO_GPUS, "No GPU is open for offline work now."
        feasible = self.problem.barrier[:, column] == 0
        if feasible.any():
            return Code.OUTBID, self._outbid(column, feasible)
        barrier = self.problem.barrier[:, column]
        nearest = int(barrier.argmax())
        code = BARRIERS[barrier[nearest]] or Code.OUTBID
        return code, self._job_barrier(code, column, nearest)

    def _outbid(self, column: int, feasible: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> str:
        worth = np.where(feasible, self.problem.worth[:, column], -1)
        row = int(worth.argmax())
        fits = int(self.problem.rows.count[feasible].sum())
        gpu = self.problem.rows.members[row][0]
        text = f"{fits} open GPUs fit, all go to jobs worth as much or more."
        if gpu not in self.pairs:
            return text
        winner = self.pairs[gpu]
        speed = self.problem.throughput[row, self.class_of[winner]]
        own = self.problem.throughput[row, column]
        return (
            f"{text} Its best, {self.gpus[gpu].name} (≈ {own:.0%}), goes to"
            f" {self.jobs[winner].name} (≈ {speed:.0%})."
        )

    def _job_barrier(self, code: Code, column: int, row: int) -> str:
        job, problem = self.problem.classes.examples[column], self.problem
        count = len(self.gpus)
        if code is Code.POOL:
            return f"None of the {count} open GPUs is in a pool it may use: {_names(job.pools)}."
        if code is Code.MODEL:
            return f"None of the {count} open GPUs is a model it may use: {_names(job.gpu_models)}."
        if code is Code.MEMORY:
            most = _gib(max(problem.rows.quota_bytes))
            return (
                f"It needs {_gib(job.use.memory_bytes)}; the most that an open GPU has is {most}."
            )
        if code is Code.AVOID:
            return "The open GPUs that fit are those it was taken off not long ago."
        if code is Code.HELD:
            return "The only open GPU that fits is kept free for a job that is moved."
        if code is Code.SLOWDOWN:
            return f"On every open GPU it would slow online by over {MOST_SLOWDOWN - 1:.0%}."
        return f"On every open GPU it would run below {LEAST_THROUGHPUT:.0%} of its speed alone."


def kept(guest: Guest) -> Verdict:
    """A running job that stays."""
    fixed = guest.running.fixed
    why = f"Runs at ≈ {guest.speed:.0%} of its speed alone here."
    if fixed:
        why = f"{why} Not moved: {fixed}."
    else:
        why = f"{why} No move would gain ≈ {guest.least_gain:.0%} and pay back its restart."
    return Verdict(
        Kind.KEEP,
        Code.FIXED if fixed else Code.KEPT,
        why,
        job_id=guest.running.job.id,
        gpu_id=guest.gpu.id,
        weight=guest.speed * guest.running.job.weight,
        throughput=guest.speed,
        share_percent=guest.running.share_percent,
    )


def moved(move: Move) -> Verdict:
    """A running job that stays until somebody agrees to its move."""
    guest = move.guest
    return Verdict(
        Kind.MOVE,
        Code.MOVE,
        why_moved(move),
        job_id=guest.running.job.id,
        gpu_id=move.to.id,
        from_gpu_id=guest.gpu.id,
        weight=guest.speed * guest.running.job.weight,
        throughput=move.speed,
    )


def why_moved(move: Move) -> str:
    guest = move.guest
    return (
        f"Runs at ≈ {guest.speed:.0%} on {guest.gpu.name} and would at ≈ {move.speed:.0%} on"
        f" {move.to.name}: {move.gain:+.2f} GPUs, paid back in ≈ {_minutes(move.pays_back_s)}."
    )


def _places(members: Sequence[Sequence[int]]) -> dict[int, int]:
    return {index: place for place, group in enumerate(members) for index in group}


def _no_share(gpu: GpuFacts) -> str:
    return (
        f"Online peaks at ≈ {gpu.online_peak_percent:.0f} % of the SMs; with"
        f" {gpu.rules.sm_reserve_percent:.0f} % in reserve too little is left."
    )


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"


def _minutes(seconds: float) -> str:
    return f"{max(1, round(seconds / 60))} min"


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{shown} and {len(names) - 4} more" if len(names) > 4 else shown
