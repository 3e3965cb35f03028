"""Which running jobs would be worth a restart on another GPU. Pure.

A move costs what the job has not saved and the time of a restart. It is proposed when it adds the
policy's least gain, and pays back `PAY_BACK` times its cost before the job is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

import numpy as np

from console.scheduling.snapshot import GpuFacts, JobFacts, RunningFacts
from workers.matching import solve
from workers.matching.market import Market, Slots
from workers.matching.problem import (
    SCALE,
    Floats,
    Ints,
    Problem,
    classes_of,
    load_of,
    problem_of,
    rows_of,
    share_of,
)
from workers.prediction import analytic
from workers.reallocation import shares

PAY_BACK: Final = 2.0
# Beyond this nobody can tell what the load will be. World seconds. Our choice.
HORIZON_S: Final = 4 * 3_600.0
# The most promising jobs are enough to choose a few moves from.
CONSIDERED: Final = 200


@dataclass(frozen=True, slots=True)
class Guest:
    """A running job on its GPU, which runs at `speed` there; `open`: others could take its place.

    A move must add `least_gain` to `speed`; it costs `cost_work_s`.
    """

    running: RunningFacts
    gpu: GpuFacts
    speed: float
    open: bool = True

    @property
    def cost_work_s(self) -> float:
        """What is not saved, and what would be done during the restart."""
        return self.running.unsaved_work_s + self.gpu.rules.restart_s * self.speed

    @property
    def least_gain(self) -> float:
        """The policy's, or more when little time is left: at full speed, to be on the safe side."""
        left_s = min(HORIZON_S, self.running.left_work_s + self.running.unsaved_work_s)
        paid_back = PAY_BACK * self.cost_work_s / max(left_s, 1.0)
        return max(self.gpu.rules.move_min_gain, paid_back)


@dataclass(frozen=True, slots=True)
class Found:
    """Take a guest to `to`, where the estimate says `speed`."""

    guest: Guest
    to: GpuFacts
    speed: float

    @property
    def gain(self) -> float:
        return self.speed - self.guest.speed

    @property
    def pays_back_s(self) -> float:
        """World time until the job is as far as it would have been without the move."""
        return self.guest.cost_work_s / self.gain


def speeds(running: Sequence[RunningFacts], gpus: Sequence[GpuFacts]) -> Floats:
    """What the estimate says of each running job where it is; `gpus[i]` holds `running[i]`.

    The share is what it started with, or less where the recent peak leaves less: the ruler by
    which another GPU is judged as well.
    """
    left = share_of(gpus)
    started = np.array([one.share_percent for one in running], np.float64)
    share = np.maximum(shares.LEAST, np.minimum(started, left)) / 100.0
    online = load_of([gpu.online for gpu in gpus])
    job = load_of([one.job.use for one in running])
    return analytic.estimate(online, job, share).throughput


def choose(
    guests: Sequence[Guest],
    free: Sequence[GpuFacts],
    waiting: Sequence[JobFacts],
    avoid: frozenset[tuple[UUID, int]],
    allowed: int,
) -> list[Found]:
    """At most `allowed` of the moves that the best plan would make, were running jobs free to go.

    Each pays by itself; those that gain most come first.
    """
    movable = [guest for guest in guests if not guest.running.fixed]
    if not allowed or not free or not movable:
        return []
    promising = _promising(movable, free)
    if not promising:
        return []
    gpus = [*(guest.gpu for guest in promising), *free]
    jobs = [*(guest.running.job for guest in promising), *waiting]
    alone = frozenset(guest.gpu.id for guest in promising) | {gpu_id for _, gpu_id in avoid}
    names = frozenset(guest.running.job.id for guest in promising) | {job for job, _ in avoid}
    problem = problem_of(rows_of(gpus, alone), classes_of(jobs, names), avoid)
    slots = Slots.plain(problem.classes.count)
    market = Market(_worth(problem, promising), problem.rows.count, slots)
    x = solve.assign(market).table(market)
    moves = sorted(_moves(problem, x, promising, gpus), key=lambda move: -move.gain)
    return moves[:allowed]


def _promising(guests: Sequence[Guest], free: Sequence[GpuFacts]) -> list[Guest]:
    """Those that could gain enough somewhere, were that GPU theirs for the asking."""
    classes = classes_of([guest.running.job for guest in guests])
    problem = problem_of(rows_of(free), classes)
    best = np.where(problem.barrier == 0, problem.throughput, 0.0).max(axis=0, initial=0.0)
    surplus = {
        index: best[number] - guests[index].speed - guests[index].least_gain
        for number, members in enumerate(classes.members)
        for index in members
    }
    found = [index for index, more in surplus.items() if more >= 0.0]
    found.sort(key=lambda index: (-surplus[index], index))
    return [guests[index] for index in found[:CONSIDERED]]


def _worth(problem: Problem, guests: Sequence[Guest]) -> Ints:
    """Staying is worth the least gain more; nobody moves to a GPU that is taken."""
    worth = problem.worth.copy()
    row_of, class_of = _row_of(problem), _class_of(problem)
    columns = [class_of[guest.running.job.id] for guest in guests]
    for place, guest in enumerate(guests):
        row = row_of[place]
        worth[row] = worth[row] * guest.open
        worth[row, columns] = 0
        staying = (guest.speed + guest.least_gain) * guest.running.job.weight
        worth[row, columns[place]] = max(1, round(SCALE * staying))
    return worth


def _moves(
    problem: Problem, x: Ints, guests: Sequence[Guest], gpus: Sequence[GpuFacts]
) -> Iterator[Found]:
    row_of, class_of = _row_of(problem), _class_of(problem)
    left = [list(members) for members in problem.rows.members]
    for place, guest in enumerate(guests):
        column = class_of[guest.running.job.id]
        taken = np.flatnonzero(x[:, column])
        if not len(taken) or taken[0] == row_of[place]:
            continue
        row = int(taken[0])
        move = Found(guest, gpus[left[row].pop(0)], float(problem.throughput[row, column]))
        if move.gain >= guest.least_gain:
            yield move


def _row_of(problem: Problem) -> dict[int, int]:
    return {index: row for row, members in enumerate(problem.rows.members) for index in members}


def _class_of(problem: Problem) -> dict[UUID, int]:
    """Of jobs that are a class of their own."""
    return {job.id: number for number, job in enumerate(problem.classes.examples)}
