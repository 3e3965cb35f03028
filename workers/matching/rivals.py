"""What a GPU is worth to the plan, who would be next best there, and what that would cost. Pure.

With OPT, what the plan is worth to the matching, aging and the cost of restarts included, both are
exact. Of GPU g, which class c has, and another class d:

    price of g         = OPT − OPT(without g)     = worth[g, c] − lowest[c]
    loss with d on g   = OPT − OPT(d has g)       = worth[g, c] − worth[g, d] + chain[d, c]

`lowest` is the lowest price of the certificate. `chain[d, c]` is the shortest chain of changes from
d, which then has a job too many, to c, which has one too few: jobs take over each other's GPUs, one
takes a free place or an idle GPU, one is left out. What the shortest chain leads to is the best
again (Ahuja, Magnanti and Orlin, Network Flows, 1993, section 9.7). The runner-up is the class that
loses least; of jobs alike none is a rival of another.

Its loss is 0 exactly when another plan is worth as much: in a tie, or on one of two GPUs alike
whose jobs could change places. Prices alone only give a bound from below, which is 0 far more
often: worth[g, c] − worth[g, d] + price[d] − price[c].

Of more than MOST_CLASSES only prices are told.

A running job that may not move is no part of the market. With d on its GPU it would have none, and
the chain ends where a job more does: in a free place, an emptied GPU, or a job that is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.scheduling.plan import Rival
from workers.matching import explain
from workers.matching.certificate import FAR
from workers.matching.chains import best_others, shortest
from workers.matching.columns import Bools, Ints
from workers.matching.market import Worths
from workers.matching.matched import Matched
from workers.matching.weights import GUARD, SCALE

# More than any pair and any chain that there is; less than one with a link that there is not.
_NEVER: Final = FAR // 2
# All chains between more would take seconds, and seconds by the cube of their number.
MOST_CLASSES: Final = 2_000


@dataclass(frozen=True)
class Pairs:
    """GPUs and who has them, in columns: seats, rows and classes by index. `ends`: the class that
    is short of a job when another has the GPU. Of a job that may not move that is none, told as the
    one after the last. `worth` to the matching, in millionths."""

    seat: Ints
    row: Ints
    job_class: Ints
    ends: Ints
    worth: Ints

    def __len__(self) -> int:
        return len(self.seat)


def rivals(matched: Matched) -> dict[int, Rival]:
    """By GPU id, of every pair that the plan makes or leaves as it is."""
    few = len(matched.problem.classes) <= MOST_CLASSES
    chain = shortest(matched.proof.changes) if few else None
    found: dict[int, Rival] = {}
    for pairs, worth in (_within(matched), _apart(matched)):
        gpus = matched.problem.seats.gpu_id[pairs.seat].tolist()
        found |= zip(gpus, _told(matched, pairs, worth, chain), strict=True)
    return found


def _within(matched: Matched) -> tuple[Pairs, Worths]:
    """Pairs that are part of the market, with the worth of their rows: placed, moved, kept, and
    those for whose moves no restart is left."""
    problem, deal = matched.problem, matched.deal
    guests, pinned, own = problem.guests, matched.pinned, problem.own_class
    placed = problem.demand.job_class[deal.placed.job]
    seat = np.concatenate([deal.placed.seat, deal.to, guests.seat[deal.kept], guests.seat[pinned]])
    job_class = np.concatenate([placed, own[deal.moved], own[deal.kept], own[pinned]])
    row, ends = problem.row_of[seat], job_class.copy()
    worth = problem.worth[row, job_class].astype(np.int64)
    if len(pinned):
        ends[-len(pinned) :] = len(problem.classes)
        worth[-len(pinned) :] = guests.worth[pinned]
    return Pairs(seat, row, job_class, ends, worth), problem.worth


def _apart(matched: Matched) -> tuple[Pairs, Worths]:
    """Running jobs that may not move, with what others would be worth on their GPUs."""
    problem, field = matched.problem, matched.problem.field
    at = np.arange(field.moving, len(field.guests))
    seat, none = problem.guests.seat[at], np.full(len(at), len(problem.classes))
    worth = problem.worth_at(seat)
    shut = [not guest.open for guest in field.guests[field.moving :]]
    worth[np.array(shut, bool)] = 0
    return Pairs(seat, np.arange(len(at)), none, none, problem.guests.worth[at]), worth


def _told(
    matched: Matched, pairs: Pairs, worth: Worths, chain: NDArray[np.int32] | None
) -> Iterator[Rival]:
    """One for each pair, in order."""
    price, _ = _unguarded(pairs.worth - np.append(matched.proof.lowest, 0)[pairs.ends])
    earns = (np.maximum(price, 0) / SCALE).tolist()
    if chain is None:
        return (Rival("", None, one, explain.TOO_MANY) for one in earns)
    other, loss = runners_up(worth, pairs, chain)
    loss, unseats = _unguarded(loss)
    unseats |= pairs.ends == len(matched.problem.classes)
    some = np.flatnonzero(other >= 0)
    names, of = _names(matched), other[some]
    fast = matched.problem.throughput_at(pairs.seat[some], of)
    said = np.full(len(pairs), explain.NO_OTHER, object)
    said[some] = explain.runners_up(names, of, fast, loss[some] / SCALE, unseats[some])
    lost = np.full(len(pairs), None, object)
    lost[some] = (loss[some] / SCALE).tolist()
    who = map([*names, ""].__getitem__, other.tolist())
    return map(Rival, who, lost.tolist(), earns, said.tolist())


def runners_up(worth: Worths, pairs: Pairs, chain: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Of each pair the other class that loses least, -1 where none could run there, and what it
    loses, in millionths."""
    if not worth.shape[1]:
        return np.full(len(pairs), -1), np.zeros(len(pairs), np.int64)
    other, gain = best_others(worth, pairs.row, pairs.job_class, pairs.ends, chain)
    loss = pairs.worth - gain
    return np.where(loss < _NEVER, other, -1), loss


def _unguarded(millionths: Ints) -> tuple[Ints, Bools]:
    """Without what keeps a running job from being left without any GPU, and where that is so."""
    guarded = millionths >= GUARD // 2
    return millionths - np.where(guarded, GUARD, 0), guarded


def _names(matched: Matched) -> Sequence[str]:
    """Of each class who would come next: the oldest that goes on waiting, or an example."""
    problem = matched.problem
    classes, jobs = problem.classes, problem.demand.jobs
    left = problem.demand.waits.copy()
    left[matched.deal.placed.job] = left[matched.deal.following.job] = False
    members = classes.members[left[classes.members]]
    job_class = problem.demand.job_class[members]
    first = np.flatnonzero(np.diff(job_class, prepend=-1))
    next_ = dict(zip(job_class[first].tolist(), members[first].tolist(), strict=True))
    return [
        jobs[next_[number]].name if number in next_ else example.name
        for number, example in enumerate(classes.examples)
    ]
