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
from operator import attrgetter
from typing import Final, NamedTuple
from uuid import UUID

import msgspec

from agents.wire.names import GpuState, SharingMode
from console.scheduling.plan import Code
from console.scheduling.snapshot import GpuFacts, JobFacts, RunningFacts, Snapshot

# Older samples say nothing about now. Our choice, as the map's "stale".
LIVE_AGE_S: Final = 10.0
MOST_ALONE: Final = 100


class Closed(NamedTuple):
    """Why a GPU or a job takes no part; the sentence stands by itself."""

    code: Code
    why: str


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
    """

    free: tuple[GpuFacts, ...]
    closed: tuple[tuple[GpuFacts, Closed], ...]
    guests: tuple[Guest, ...]
    moving: int
    waiting: tuple[JobFacts, ...]
    out: tuple[tuple[JobFacts, Closed], ...]
    alone: frozenset[UUID]
    moves_open: frozenset[str]


def admit(snapshot: Snapshot) -> Field:
    here = {gpu.id: gpu for gpu in snapshot.gpus}
    running = [one for one in snapshot.running if one.gpu_id in here]
    taken = {one.gpu_id for one in running}
    avoiding = {job_id for job_id, gpu_id in snapshot.avoid if gpu_id in here}
    waiting, out = _due(snapshot.jobs, snapshot.at)
    waiting = _within_caps(waiting, snapshot, out)
    held = {gpu.held_for for gpu in snapshot.gpus if gpu.held_for} & {job.id for job in waiting}
    shut = _shut(snapshot.gpus, snapshot.mode, held)
    guests = _guests(running, here, shut, snapshot)
    alone = _alone(waiting, guests, avoiding - held) | held
    waiting = _looked_at(waiting, avoiding - alone, out)
    guests = _pinned(guests, avoiding - alone)
    moving = [guest for guest in guests if not guest.stays]
    staying = [guest for guest in guests if guest.stays]
    return Field(
        free=tuple(gpu for gpu in snapshot.gpus if gpu.id not in shut and gpu.id not in taken),
        closed=tuple((here[pk], why) for pk, why in shut.items() if pk not in taken),
        guests=(*moving, *staying),
        moving=len(moving),
        waiting=tuple(waiting),
        out=tuple(out),
        alone=frozenset(alone),
        moves_open=snapshot.moves_open,
    )


# --- GPUs ---------------------------------------------------------------------------------


def closed(gpu: GpuFacts, wanted: SharingMode) -> Closed | None:
    """The first fact that forbids new offline work on `gpu`; None when it is open.

    Facts that hold for long come first: they are the ones worth changing.
    """
    if (
        gpu.mode is wanted
        and _standing(gpu) == _USUAL
        and (gpu.imported or (gpu.node_connected and _is_live(gpu)))
    ):
        return None  # nearly all of them, so they are told first
    return _by_inventory(gpu, wanted) or _by_node(gpu) or _by_live_state(gpu)


_standing = attrgetter(
    "state",
    "holdback",
    "conflict",
    "disabled",
    "unshareable_fact",
    "never_share",
    "draining",
    "cordoned",
)
_USUAL: Final = (GpuState.HEALTHY, False, False, False, "", False, False, False)


def _shut(
    gpus: Sequence[GpuFacts], wanted: SharingMode, held: Collection[UUID | None]
) -> dict[int, Closed]:
    """By id; also those that are kept for a job that does not wait yet."""
    shut = {gpu.id: why for gpu in gpus if (why := closed(gpu, wanted))}
    for gpu in gpus:
        if gpu.held_for and gpu.held_for not in held:
            shut.setdefault(gpu.id, Closed(Code.HELD, "Kept free for a job that is moved here."))
    return shut


def _is_live(gpu: GpuFacts) -> bool:
    least, headroom = gpu.rules.min_headroom_percent, gpu.headroom_percent
    heard = gpu.live_age_s is not None and gpu.live_age_s <= LIVE_AGE_S
    return heard and (headroom is None or headroom >= least)


def _by_inventory(gpu: GpuFacts, wanted: SharingMode) -> Closed | None:
    if gpu.holdback:
        return Closed(Code.HOLDBACK, "Held back: it never shares, as the standing control.")
    if gpu.mode != wanted:
        return Closed(Code.MODE, f"Its sharing mode is {gpu.mode.value}, not {wanted.value}.")
    if gpu.never_share:
        whom = gpu.service or "its owner"
        return Closed(Code.NEVER_SHARE, f"Marked as never to be shared, for {whom}.")
    if gpu.conflict:
        return Closed(Code.CONFLICT, "Another node claims the same GPU UUID.")
    if gpu.disabled:
        return Closed(Code.DISABLED, "Disabled until a person enables it.")
    if gpu.unshareable_fact:
        return Closed(Code.UNSHAREABLE, f"Not shareable: {gpu.unshareable_fact}.")
    return None


def _by_node(gpu: GpuFacts) -> Closed | None:
    if gpu.draining:
        return Closed(Code.DRAINING, "Its node is being drained.")
    if gpu.cordoned:
        return Closed(Code.CORDONED, "Its node is cordoned: no new placements.")
    if not gpu.imported and not gpu.node_connected:
        return Closed(Code.UNREACHABLE, "Its node is not connected.")
    return None


def _by_live_state(gpu: GpuFacts) -> Closed | None:
    if gpu.state is not GpuState.HEALTHY:
        return Closed(Code.STATE, f"Its state is {gpu.state.value}; only HEALTHY takes new work.")
    if gpu.imported:
        return None
    if gpu.live_age_s is None or gpu.live_age_s > LIVE_AGE_S:
        return Closed(Code.NO_LIVE_DATA, f"No sample in the last {LIVE_AGE_S:.0f} s.")
    least = gpu.rules.min_headroom_percent
    if gpu.headroom_percent is not None and gpu.headroom_percent < least:
        return Closed(
            Code.HEADROOM,
            f"Headroom is {gpu.headroom_percent:.0f} %; new work needs {least:.0f} %.",
        )
    return None


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


def _guests(
    running: Sequence[RunningFacts],
    here: Mapping[int, GpuFacts],
    shut: Collection[int],
    snapshot: Snapshot,
) -> list[Guest]:
    spent = {gpu.pool for gpu in here.values() if snapshot.restarts_left.get(gpu.pool, 0) <= 0}
    why = {pool: _no_restart(pool, snapshot) for pool in spent}
    found = []
    for one in running:
        gpu = here[one.gpu_id]
        stays = one.fixed or _interrupted_enough(one) or why.get(gpu.pool, "")
        found.append(Guest(one, gpu, stays, gpu.id not in shut))
    return found


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
