"""Running jobs that change their GPUs: which moves belong together, and which may be made. Pure.

A move goes to a GPU that is free, or to one that another move of the plan empties. So moves form
chains, which end at a free GPU, and rings. A node stops a job when its move is approved, its GPU
is then kept for whoever moves there, and the next round starts the job on the GPU kept for it:
nothing is in two places, and a job whose GPU is not empty yet waits in the queue meanwhile. From
its free end a chain can be cut anywhere; a ring only makes sense whole.

Restarts are limited, for each pool by those that are left this hour. When a plan needs more, the
chains that gain most for each restart are kept, cut to what is left, all other running jobs are
pinned to their GPUs, and the rest is matched again: what is returned is the best plan in which
only those jobs may move, and it is proven to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from workers.matching.columns import Ints
from workers.matching.dealing import Deal
from workers.matching.problem import Problem


@dataclass(frozen=True)
class Chain:
    """`guests` in the order of their moves, `to` the seats they go to; each but the first goes to
    the GPU of the one before it, in a `ring` the first to that of the last.

    `gain[n]`: what the first n + 1 moves add, in millionths, all that restarts cost counted.
    `follower`: a job that waits and would have the GPU of the last; an index of jobs.
    """

    guests: Sequence[int]
    to: Sequence[int]
    gain: Sequence[int]
    ring: bool
    follower: int | None


def chains(problem: Problem, deal: Deal) -> list[Chain]:
    """All moves of a deal, in the order of the GPUs they begin at."""
    to = dict(zip(deal.moved.tolist(), deal.to.tolist(), strict=True))
    goes_to = {seat: guest for guest, seat in to.items()}
    follows = dict(zip(deal.following.seat.tolist(), deal.following.job.tolist(), strict=True))
    ends = [guest for guest, seat in to.items() if not problem.is_taken(seat)]
    found = [_walk(problem, guest, to, goes_to, follows) for guest in sorted(ends)]
    ringed = sorted(set(to) - {guest for chain in found for guest in chain.guests})
    while ringed:
        ring = _walk(problem, ringed[0], to, goes_to, follows)
        found.append(ring)
        ringed = sorted(set(ringed) - set(ring.guests))
    return found


def _walk(
    problem: Problem,
    first: int,
    to: Mapping[int, int],
    goes_to: Mapping[int, int],
    follows: Mapping[int, int],
) -> Chain:
    """From the move that goes first to whoever takes the place of the last."""
    guests = [first]
    while True:
        left = int(problem.guests.seat[guests[-1]])
        following = goes_to.get(left)
        if following is None or following == first:
            break
        guests.append(following)
    seats = [to[guest] for guest in guests]
    return Chain(
        guests, seats, _gains(problem, guests, seats), following == first, follows.get(left)
    )


def _gains(problem: Problem, guests: Sequence[int], seats: Sequence[int]) -> list[int]:
    some = np.array(guests, np.int64)
    row, own = problem.row_of[np.array(seats, np.int64)], problem.own_class[some]
    there = problem.worth[row, own].astype(np.int64)
    here = problem.guests.worth[some] + problem.guests.staying[some]
    gains: list[int] = np.cumsum(there - here).tolist()
    return gains


def within_budget(
    problem: Problem, found: Sequence[Chain], restarts_left: Mapping[str, int]
) -> Ints | None:
    """The guests that may move when not all of the moves found may be made; None: all may."""
    needed = Counter(_pool(problem, guest) for chain in found for guest in chain.guests)
    if all(count <= restarts_left.get(pool, 0) for pool, count in needed.items()):
        return None
    left = Counter({pool: max(0, count) for pool, count in restarts_left.items()})
    allowed: list[int] = []
    for chain in sorted(found, key=lambda chain: (-_gain_each(problem, chain), chain.guests)):
        some = _cut(problem, chain, left)
        left.subtract(_pool(problem, guest) for guest in some)
        allowed.extend(some)
    return np.array(sorted(allowed), np.int64)


def _gain_each(problem: Problem, chain: Chain) -> float:
    """For each restart of the whole chain."""
    return (chain.gain[-1] + _follower_worth(problem, chain)) / len(chain.guests)


def _follower_worth(problem: Problem, chain: Chain) -> int:
    if chain.follower is None:
        return 0
    row = problem.row_of[problem.guests.seat[chain.guests[-1]]]
    job_class = problem.demand.job_class[chain.follower]
    return int(problem.worth[row, job_class] + problem.demand.age[chain.follower])


def _cut(problem: Problem, chain: Chain, left: Mapping[str, int]) -> Sequence[int]:
    """As much of a chain as the restarts allow, from its free end."""
    some = list(_affordable(problem, chain, left))
    return [] if chain.ring and len(some) < len(chain.guests) else some


def _affordable(problem: Problem, chain: Chain, left: Mapping[str, int]) -> Iterator[int]:
    used = Counter[str]()
    for guest in chain.guests:
        pool = _pool(problem, guest)
        if used[pool] >= left.get(pool, 0):
            return
        used[pool] += 1
        yield guest


def _pool(problem: Problem, guest: int) -> str:
    return problem.field.guests[guest].gpu.pool
