"""From classes back to jobs: who of a class gets which of the GPUs that the class was given. Pure.

A job that runs on one of them stays there. Of the others those that wait take what is free, the
oldest first, since they can start at once; those that run take the rest, and whoever is left of
those that wait follows on GPUs that the plan empties. What the plan is worth is the same, however
they are dealt out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from workers.matching.columns import Bools, Ints
from workers.matching.market import Solution
from workers.matching.problem import Problem


@dataclass(frozen=True)
class Pairs:
    """Seats and jobs, as indices of the problem's."""

    seat: Ints
    job: Ints

    def __len__(self) -> int:
        return len(self.seat)


@dataclass(frozen=True)
class Deal:
    """`kept` running jobs stay, `moved` ones go elsewhere, `unseated` ones would have no GPU: all
    indices of the problem's guests; `to` goes with `moved`, as indices of seats.

    `placed` start on free GPUs, `following` wait for GPUs that are emptied.
    """

    kept: Ints
    moved: Ints
    to: Ints
    unseated: Ints
    placed: Pairs
    following: Pairs


def deal(problem: Problem, solution: Solution, pinned: Ints) -> Deal:
    """`pinned` guests are not part of the solution."""
    seat, job_class, stays = _single(problem, solution, pinned)
    guest = seat - len(problem.field.free)
    kept = guest[stays]
    free = np.setdiff1d(np.arange(problem.field.moving), np.concatenate([kept, pinned]))
    rest = np.flatnonzero(~stays)
    rest = rest[np.lexsort((rest, guest[rest] >= 0, job_class[rest]))]
    return _deal_rest(problem, seat[rest], job_class[rest], guest[rest] >= 0, kept, free)


def _single(problem: Problem, solution: Solution, pinned: Ints) -> tuple[Ints, Ints, Bools]:
    """Seat and class of each pair, a pair for each GPU, row by row; and whether the job that runs
    there stays. The last of a row stay, which would lose the most by a restart."""
    members, offset = problem.rows.without(problem.guests.seat[pinned])
    order = np.lexsort((solution.job_class, solution.row))
    count = solution.count[order]
    row = np.repeat(solution.row[order], count)
    job_class = np.repeat(solution.job_class[order], count)
    stays = problem.rows.own[row] == job_class
    new = np.flatnonzero(np.diff(row, prepend=-1))
    among = np.repeat(new, np.diff(np.append(new, len(row))))
    from_first, from_last = _before(~stays, among), _before(stays, among)
    seat = np.where(stays, offset[row + 1] - 1 - from_last, offset[row] + from_first)
    return members[seat], job_class, stays


def _before(some: Bools, start: Ints) -> Ints:
    """How many of `some` are before each, from `start` on."""
    counted = np.concatenate([[0], np.cumsum(some)])
    before: Ints = counted[:-1] - counted[start]
    return before


def _deal_rest(
    problem: Problem, seat: Ints, job_class: Ints, emptied: Bools, kept: Ints, free: Ints
) -> Deal:
    """Pairs by class, the GPUs that are free now first; `free` guests are not where they ran."""
    classes = problem.classes
    count = len(classes)
    seats = np.bincount(job_class, minlength=count)
    free = free[np.argsort(problem.own_class[free], kind="stable")]
    movers = np.bincount(problem.own_class[free], minlength=count)
    seated = np.minimum(movers, seats)
    waiting = seats - seated
    within = _within(seats)
    waits = within < waiting[job_class]
    member = classes.offset[:-1] + classes.running
    job = np.full(len(seat), -1)
    job[waits] = classes.members[member[job_class[waits]] + within[waits]]
    goes = _within(movers) < seated[problem.own_class[free]]
    placed, following = waits & ~emptied, waits & emptied
    return Deal(
        kept=kept,
        moved=free[goes],
        to=seat[~waits],
        unseated=free[~goes],
        placed=Pairs(seat[placed], job[placed]),
        following=Pairs(seat[following], job[following]),
    )


def _within(count: Ints) -> Ints:
    """0, 1, … in each group, one group after the other."""
    return np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
