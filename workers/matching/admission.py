"""Who takes part in a round: open GPUs, jobs that may start, running jobs that may move. Pure.

What keeps a GPU or a job out has a sentence of its own. The rules for jobs, in this order:

* one that needs several GPUs at once never shares: it would hold each of them for the others;
* one whose next try is not due yet waits for it;
* of a team that runs nearly all it may, those of the highest weight go first, then the oldest,
  until the team's room is used up; which of them then get a GPU is the matching's business;
* each job with GPUs to avoid is a class of its own, so at most `MOST_ALONE` take part in a round;
  here too those of the highest weight go first, then the oldest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import compress
from operator import attrgetter
from typing import Final
from uuid import UUID

import msgspec
import numpy as np

from agents.wire.names import SHARING_MODES, SharingMode
from console.scheduling.plan import Code
from console.scheduling.snapshot import GpuFacts, JobFacts, RunningFacts, Snapshot
from workers.matching import columns
from workers.matching.closing import Closed, closed
from workers.matching.columns import Floats, Ints
from workers.matching.gpu_columns import ID, KEPT, MODE, OPEN
from workers.matching.memory import Memory

MOST_ALONE: Final = 100


class Guest(msgspec.Struct, frozen=True, gc=False):
    """A running job on its GPU. `stays`: why it is not moved; empty: it may be.

    `open`: its GPU takes new work, so others could have its place.
    """

    running: RunningFacts
    gpu: GpuFacts
    stays: str
    open: bool


@dataclass(frozen=True)
class Field:
    """Who is matched, and who is not and why.

    `closed` and `out` tell of GPUs without a guest and of jobs that wait. The first `moving` of
    the guests may move. `alone`: jobs that are a class of their own, because of a GPU that they
    avoid or that is kept for them. `moves_open`: pools whose earlier moves hold up new ones.
    `seat`: where the free GPUs, then those of the guests are among the snapshot's.
    """

    free: tuple[GpuFacts, ...]
    closed: tuple[tuple[GpuFacts, Closed], ...]
    guests: tuple[Guest, ...]
    moving: int
    waiting: tuple[JobFacts, ...]
    out: tuple[tuple[JobFacts, Closed], ...]
    alone: frozenset[UUID]
    moves_open: frozenset[str]
    seat: Ints


def admit(snapshot: Snapshot, memory: Memory | None = None) -> Field:
    """`memory` spares reading GPUs of which nothing has changed since the round before."""
    gpus = snapshot.gpus
    told = (memory or Memory()).gpus.of(gpus)
    kept = {at: gpus[at] for at in np.flatnonzero(told[:, KEPT]).tolist()}
    ids = told[:, ID].astype(np.int64)
    avoiding = _avoiding(snapshot.avoid, ids)
    waiting, out = _due(snapshot.jobs, snapshot.at)
    waiting = _within_caps(waiting, snapshot, out)
    held = {job.id for job in waiting} & {gpu.held_for for gpu in kept.values()}
    shut = _shut_for(kept, held) | _shut(gpus, told, snapshot.mode)
    running, hosts = _hosted(snapshot.running, ids)
    guests = _guests(running, hosts, shut, snapshot)
    alone = _alone(waiting, guests, avoiding - held) | held
    waiting = _looked_at(waiting, avoiding - alone, out)
    guests = _pinned(guests, avoiding - alone)
    stays = np.array(list(map(bool, map(attrgetter("stays"), guests))), bool)
    order = np.argsort(stays, kind="stable")
    taken = np.zeros(len(gpus), bool)
    taken[hosts] = True
    free = ~taken
    free[list(shut)] = False
    seat = np.concatenate([np.flatnonzero(free), hosts[order]])
    return Field(
        free=tuple(compress(gpus, free.tolist())),
        closed=tuple((gpus[at], shut[at]) for at in sorted(shut) if not taken[at]),
        guests=tuple(map(guests.__getitem__, order.tolist())),
        moving=len(guests) - int(stays.sum()),
        waiting=tuple(waiting),
        out=tuple(out),
        alone=frozenset(alone),
        moves_open=snapshot.moves_open,
        seat=seat,
    )


# --- GPUs ---------------------------------------------------------------------------------


def _shut(gpus: Sequence[GpuFacts], told: Floats, wanted: SharingMode) -> dict[int, Closed]:
    """By position; `told` is what the GPUs say in numbers."""
    usual = (told[:, MODE] == SHARING_MODES.index(wanted)) & (told[:, OPEN] > 0.0)
    unusual = [(at, closed(gpus[at], wanted)) for at in np.flatnonzero(~usual).tolist()]
    return {at: why for at, why in unusual if why}


def _shut_for(gpus: Mapping[int, GpuFacts], held: Collection[UUID | None]) -> dict[int, Closed]:
    """Those that are kept for a job that does not wait yet; `gpus` by position."""
    why = Closed(Code.HELD, "Kept free for a job that is moved here.")
    return {at: why for at, gpu in gpus.items() if gpu.held_for not in held}


# --- jobs that wait -----------------------------------------------------------------------

Out = list[tuple[JobFacts, Closed]]


def _due(jobs: Sequence[JobFacts], now: datetime) -> tuple[list[JobFacts], Out]:
    due: list[JobFacts] = []
    out: Out = []
    for job in jobs:
        if job.gpus > 1:
            out.append((job, _gang(job)))
        elif job.not_before and job.not_before > now:
            when = f"{job.not_before:%H:%M:%S} UTC"
            out.append((job, Closed(Code.NOT_BEFORE, f"Its next try is not before {when}.")))
        else:
            due.append(job)
    return due, out


def _gang(job: JobFacts) -> Closed:
    why = (
        f"It needs {job.gpus} GPUs at once; shared GPUs are given out one by one, since each of"
        f" {job.gpus} could be taken back alone and stop the rest. Ask for 1 GPU, or for GPUs"
        " of its own."
    )
    return Closed(Code.GANG, why)


def _within_caps(jobs: list[JobFacts], snapshot: Snapshot, out: Out) -> list[JobFacts]:
    """Without those for which their team has no room; these are added to `out`."""
    capped = snapshot.team_room
    if not capped:
        return jobs
    left = dict(capped)
    refused = set[UUID]()
    for job in _by_rank(job for job in jobs if job.team in capped):
        if left[job.team] <= 0:
            refused.add(job.id)
            out.append((job, _capped(job.team, capped[job.team])))
        left[job.team] -= 1
    return [job for job in jobs if job.id not in refused]


def _capped(team: str, room: int) -> Closed:
    more = f"{room} more" if room > 0 else "no more"
    why = f"Team {team} may run {more} now; jobs of a higher priority or age of it come first."
    return Closed(Code.TEAM_CAP, why)


def _by_rank(jobs: Iterable[JobFacts]) -> list[JobFacts]:
    return sorted(jobs, key=lambda job: (-job.weight, job.submitted_at, job.id))


def _avoiding(avoid: Collection[tuple[UUID, int]], gpus: Ints) -> set[UUID]:
    """Jobs with a GPU to avoid among those of the round, whose ids are `gpus`."""
    if not avoid:
        return set()
    here = set(gpus.tolist())
    return {job_id for job_id, gpu_id in avoid if gpu_id in here}


def _alone(
    waiting: Sequence[JobFacts], guests: Sequence[Guest], avoiding: Collection[UUID]
) -> set[UUID]:
    """The jobs with GPUs to avoid that take part in this round."""
    if not avoiding:
        return set()
    jobs = [job for job in waiting if job.id in avoiding]
    jobs += [one.running.job for one in guests if not one.stays and one.running.job.id in avoiding]
    return {job.id for job in _by_rank(jobs)[:MOST_ALONE]}


def _looked_at(jobs: list[JobFacts], later: Collection[UUID], out: Out) -> list[JobFacts]:
    why = Closed(
        Code.AVOID_MANY,
        f"A round looks at {MOST_ALONE} jobs that were taken off a GPU lately; it is looked at"
        " when there are fewer.",
    )
    out.extend((job, why) for job in jobs if job.id in later)
    return [job for job in jobs if job.id not in later] if later else jobs


# --- running jobs -------------------------------------------------------------------------


def _hosted(running: Sequence[RunningFacts], gpus: Ints) -> tuple[Sequence[RunningFacts], Ints]:
    """Those that run on GPUs of the round, and the positions of these, whose ids are `gpus`."""
    on = np.fromiter(map(attrgetter("gpu_id"), running), np.int64, len(running))
    at = columns.places(gpus, on, np.argsort(gpus))
    here = at >= 0
    return running if here.all() else list(compress(running, here.tolist())), at[here]


def _guests(
    running: Sequence[RunningFacts],
    hosts: Ints,
    shut: Collection[int],
    snapshot: Snapshot,
) -> list[Guest]:
    pools = set(map(attrgetter("pool"), snapshot.gpus))
    spent = {pool for pool in pools if snapshot.restarts_left.get(pool, 0) <= 0}
    why = {pool: _no_restart(pool, snapshot) for pool in spent}
    stays = [one.fixed or _interrupted_enough(one) for one in running]
    gpus = list(map(snapshot.gpus.__getitem__, hosts.tolist()))
    if why:
        stays = [told or why.get(gpu.pool, "") for told, gpu in zip(stays, gpus, strict=True)]
    open_ = np.ones(len(snapshot.gpus), bool)
    open_[list(shut)] = False
    return list(map(Guest, running, gpus, stays, open_[hosts].tolist()))


def _interrupted_enough(running: RunningFacts) -> str:
    left = running.interruptions_left
    if left is None or left > 0:
        return ""
    return "it has been interrupted as often as its policy allows"


def _no_restart(pool: str, snapshot: Snapshot) -> str:
    if pool in snapshot.moves_open:
        return f"earlier moves in pool {pool} are still open, and as many as may be at once"
    return f"pool {pool} has no restart left this hour"


def _pinned(guests: list[Guest], later: Collection[UUID]) -> list[Guest]:
    """Running jobs with GPUs to avoid that do not take part stay where they are."""
    if not later:
        return guests
    why = f"more than {MOST_ALONE} jobs have GPUs to avoid"
    return [
        msgspec.structs.replace(one, stays=why)
        if one.running.job.id in later and not one.stays
        else one
        for one in guests
    ]


def count(pairs: Iterable[tuple[GpuFacts, Closed]]) -> dict[Closed, list[GpuFacts]]:
    """Closed GPUs by reason."""
    found: dict[Closed, list[GpuFacts]] = defaultdict(list)
    for gpu, why in pairs:
        found[why].append(gpu)
    return found
