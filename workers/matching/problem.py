"""The matching problem as arrays: rows of like GPUs, classes of like jobs, the worth of each pair.

Offline jobs come in few kinds, and so do GPUs once their load is rounded to 5 %: a matching of
individuals and one of rows and classes with capacities have the same optimum, because members of
a class are interchangeable (docs/decisions/0008). Three things look like exceptions, and are not:

* A running job is worth more on its own GPU. GPUs that are alike and whose jobs are of one class
  and worth as much by staying are a row, whose pair with that class is worth that much more. If a
  plan gives n GPUs of the row to the class, n of the jobs that run there stay: who else of the
  class was meant takes what such a job was given, for the same worth. For that a running job must
  rank with the highest of its class, which the extras of its places see to (`weights.GUARD`).
* A job that has waited longer is worth more wherever it runs. That is an extra of the class's
  places, which fall from one to the next, and of jobs alike the oldest goes first.
* A job with GPUs to avoid, or one kept for it, is a class by itself; such a GPU is a row by itself.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Final, TypeAlias, TypeVar
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from console.scheduling.plan import Code
from console.scheduling.snapshot import GpuFacts, JobFacts, Snapshot
from workers.matching import columns, weights
from workers.matching.admission import Field
from workers.matching.columns import Bools, Floats, Ints
from workers.matching.demand import Classes, Demand, demand_of
from workers.matching.job_columns import CONSERVATIVE
from workers.matching.judging import Judge
from workers.matching.kept_guests import Hosted
from workers.matching.kept_worths import Scored
from workers.matching.market import Worths
from workers.matching.memory import Memory
from workers.matching.seats import Seats, seats_of
from workers.prediction.predictor import Predictor
from workers.reallocation import shares

Codes: TypeAlias = NDArray[np.int8]
A = TypeVar("A", bound=Hashable)
B = TypeVar("B", bound=Hashable)

# What can stand between a job and a GPU, in the order in which it is looked at.
BARRIERS: Final = (
    Code.POOL,
    Code.MODEL,
    Code.LABELS,
    Code.CONSERVATIVE,
    Code.UNPROVEN,
    Code.MEMORY,
    Code.HOST_CPU,
    Code.HOST_MEMORY,
    Code.NO_SHARE,
    Code.HELD,
    Code.AVOID,
    Code.SLOWDOWN,
    Code.WORTHLESS,
)
BARRIER: Final = {code: number for number, code in enumerate(BARRIERS, 1)}
# Beside services of this tier a job runs only when its profile was measured.
TIER_1: Final = 1
# Rows are worked on so many at a time: what is at hand stays in the cache.
_PIECE: Final = 1_024


@dataclass(frozen=True)
class Guests:
    """Running jobs on their GPUs: `seat` and `job` are indices of the problem's seats and jobs.

    `worth` of the pair as it is, `staying` what it is worth more than a restart, in millionths.
    `throughput` as the matching reckons, which is by its scores where it may move.
    """

    seat: Ints
    job: Ints
    hosted: Hosted
    throughput: Floats
    cost_work_s: Floats
    least_gain: Floats
    worth: Ints
    staying: Ints


@dataclass(frozen=True)
class Foreseen:
    """`worth[line[s], c]` is what seat s and class c are worth as far as predictions go."""

    worth: Worths
    line: Ints


@dataclass(frozen=True)
class Rows:
    """`members` are indices of seats, row by row from `offset[r]` to `offset[r + 1]`; of those with
    running jobs first the ones that lose the least work by a restart.

    `own[r]` is the class of the jobs that run there and may move; -1: the GPUs are free.
    `open[r]`: they take new work. `only[r]`: the one class that may have the row; a row not named:
    any. `avoided`: rows and classes of which a job was taken off there lately.
    """

    members: Ints
    offset: Ints
    own: Ints
    open: Bools
    only: Mapping[int, int]
    avoided: tuple[Ints, Ints]

    def __len__(self) -> int:
        return len(self.own)

    @cached_property
    def count(self) -> Ints:
        return np.diff(self.offset)

    def without(self, seats: Ints) -> tuple[Ints, Ints]:
        """Members and offsets of what is left without some of them: rows may come to nothing."""
        if not len(seats):
            return self.members, self.offset
        left = ~np.isin(self.members, seats)
        return self.members[left], np.concatenate([[0], np.cumsum(left)])[self.offset]

    @cached_property
    def first(self) -> Ints:
        """An example of each row: the index of a seat."""
        return self.members[self.offset[:-1]]


@dataclass(frozen=True)
class Problem:
    """`worth[r, c]` in millionths, 0 where something stands between them.

    `scores` are of the seats' loads, by their index, and the classes; `kinds[code][k, c]` says
    whether that stands between a kind of seat and a class. `foreseen` is what pairs are worth as
    far as predictions go.
    """

    field: Field
    seats: Seats
    demand: Demand
    scores: Scored
    kinds: Mapping[Code, Bools]
    foreseen: Foreseen
    rows: Rows
    guests: Guests
    worth: Worths

    @property
    def classes(self) -> Classes:
        return self.demand.classes

    @cached_property
    def pairs(self) -> int:
        """Pairs of one GPU and one job that could be made."""
        each = self.classes.count.astype(np.float32)
        fits = [
            (self.worth[piece] > 0).astype(np.float32) @ each for piece in _pieces(len(self.rows))
        ]
        return int(self.rows.count @ np.concatenate([*fits, np.empty(0)]).astype(np.int64))

    @cached_property
    def own_class(self) -> Ints:
        """The class of each running job that may move."""
        waiting = len(self.field.waiting)
        return self.demand.job_class[waiting : waiting + self.field.moving]

    @cached_property
    def row_of(self) -> Ints:
        """The row of each seat; -1 for one that is no part of the matching."""
        row = np.full(len(self.seats.gpus), -1, np.int64)
        row[self.rows.members] = np.repeat(np.arange(len(self.rows)), self.rows.count)
        return row

    @cached_property
    def guest_row(self) -> Ints:
        """The row of each running job that may move."""
        return self.row_of[self.guests.seat[: self.field.moving]]

    def is_taken(self, seat: int) -> bool:
        """Whether a running job has it."""
        return seat >= len(self.field.free)

    def worth_at(self, seat: Ints) -> Worths:
        """[seats, classes] what pairs are worth on GPUs that are taken and no part of the matching,
        as far as predictions and constraints go. Jobs with a history of their own are left out."""
        worth = _of_seats(self.seats, self.classes, self.kinds, self.foreseen, seat)
        alone = [job.id in self.field.alone for job in self.classes.examples]
        worth[:, np.array(alone, bool)] = 0
        worth[self.seats.share_percent[seat] == 0.0] = 0
        return worth

    def throughput_at(self, seat: Ints, job_class: Ints) -> NDArray[np.float32]:
        """As scored, of seats and classes that broadcast; some share must be left there."""
        return self.scores.throughput[
            self.scores.row[self.seats.load[seat]], self.scores.column[job_class]
        ]

    def throughput(self, row: Ints, job_class: Ints) -> NDArray[np.float32]:
        """As scored, of rows and classes that broadcast."""
        return self.scores.throughput[self._scored(row), self.scores.column[job_class]]

    def slowdown(self, row: Ints, job_class: Ints) -> NDArray[np.float32]:
        return self.scores.slowdown[self._scored(row), self.scores.column[job_class]]

    def _scored(self, row: Ints) -> Ints:
        return self.scores.row[self.seats.load[self.rows.first[row]]]

    def barriers(self, row: Ints, job_class: Ints) -> Codes:
        """[rows, classes] the first thing that stands between them, by BARRIER; 0: nothing."""
        found = np.zeros((len(row), len(job_class)), np.int8)
        for code, forbids in self.all_barriers(row, job_class):
            found[(found == 0) & forbids] = BARRIER[code]
        return found

    def all_barriers(self, row: Ints, job_class: Ints) -> Iterator[tuple[Code, Bools]]:
        """Each thing that may stand between them, and [rows, classes] where it does."""
        seat = self.rows.first[row]
        for code, forbids in self.kinds.items():
            yield code, forbids[np.ix_(self.seats.kind[seat], job_class)]
        yield from _scarce(self.seats, self.classes, seat, job_class)
        yield (
            Code.NO_SHARE,
            np.broadcast_to(
                self.seats.share_percent[seat][:, None] == 0.0, (len(row), len(job_class))
            ),
        )
        yield Code.HELD, _held(self.rows, row, job_class)
        yield Code.AVOID, _avoided(self.rows, row, job_class)
        throughput = self.throughput(row[:, None], job_class)
        slowdown = self.slowdown(row[:, None], job_class)
        most = self.seats.most_slowdown[seat].astype(np.float32)
        yield Code.SLOWDOWN, slowdown > most[:, None]
        weight = self.classes.weight[job_class].astype(np.float32)
        poor = throughput < weights.LEAST_THROUGHPUT
        yield Code.WORTHLESS, poor | (weights.worth(throughput, slowdown, weight) <= 0.0)


def problem_of(field: Field, snapshot: Snapshot, predictor: Predictor, memory: Memory) -> Problem:
    """Score every load with every class, and say what stands between GPUs and jobs."""
    told = memory.gpus.of(snapshot.gpus)[field.seat]
    hosts = map(attrgetter("gpu"), field.guests)
    seats = seats_of([*field.free, *hosts], told, memory.gpus)
    running = list(map(attrgetter("running.job"), field.guests))
    demand = demand_of(
        field.waiting,
        running[: field.moving],
        running[field.moving :],
        field.alone,
        snapshot,
        memory,
    )
    matched = _matched(field, seats)
    scores = _scores(seats, demand, matched, predictor, memory)
    guests = _guests(field, seats, demand, scores, predictor, memory)
    rows = _rows(field, seats, demand, guests, matched, snapshot)
    kinds = _kinds(seats.kinds, demand.classes.examples)
    foreseen = _foreseen(seats, demand.classes, scores, memory)
    worth = _worth(seats, demand.classes, kinds, foreseen, rows)
    _let_stay(worth, rows, guests, len(field.free))
    return Problem(field, seats, demand, scores, kinds, foreseen, rows, guests, worth)


# --- rows ---------------------------------------------------------------------------------


def _matched(field: Field, seats: Seats) -> Ints:
    """The seats that take part: free GPUs with something left, then those of jobs that may move."""
    free = len(field.free)
    useful = np.flatnonzero(seats.share_percent[:free] > 0.0)
    return np.concatenate([useful, free + np.arange(field.moving)])


def _rows(
    field: Field,
    seats: Seats,
    demand: Demand,
    guests: Guests,
    matched: Ints,
    snapshot: Snapshot,
) -> Rows:
    """Seats that nothing tells apart together, and of those with running jobs those whose jobs are
    of one class and worth as much by staying."""
    class_of = {
        job.id: number
        for number, job in enumerate(demand.classes.examples)
        if job.id in field.alone
    }
    avoided = [(gpu_id, class_of[job]) for job, gpu_id in snapshot.avoid if job in class_of]
    own, open_, stays, cost = _hosts(field, demand, guests, len(matched))
    alike = _alike(seats, demand.classes, matched, {gpu_id for gpu_id, _ in avoided})
    key: Floats = np.column_stack([*alike, own, open_, stays])
    example, group = columns.groups(key)
    order = np.lexsort((matched, cost, group))
    count = np.bincount(group, minlength=len(example))
    row_of = np.full(len(seats.gpus), -1, np.int64)
    row_of[matched] = group
    return Rows(
        members=matched[order],
        offset=np.concatenate([[0], np.cumsum(count)]).astype(np.int64),
        own=own[example],
        open=open_[example],
        only=_only(seats, row_of, own[example], open_[example], class_of),
        avoided=_avoided_pairs(seats, row_of, avoided),
    )


def _hosts(
    field: Field, demand: Demand, guests: Guests, seats: int
) -> tuple[Ints, Bools, Ints, Floats]:
    """Of each of `seats` that are matched, of which the last ones have jobs that may move: their
    class, whether the seat takes new work, what staying is worth and what a restart costs."""
    moving, free = field.moving, seats - field.moving
    job_class = demand.job_class[guests.job[:moving]]
    takes = np.array(list(map(attrgetter("open"), field.guests[:moving])), bool)
    stays = guests.worth[:moving] + guests.staying[:moving]
    return (
        np.concatenate([np.full(free, -1), job_class]),
        np.concatenate([np.ones(free, bool), takes]),
        np.concatenate([np.zeros(free, np.int64), stays]),
        np.concatenate([np.zeros(free), guests.cost_work_s[:moving]]),
    )


def _alike(seats: Seats, classes: Classes, some: Ints, avoided: set[int]) -> list[Ints | Floats]:
    """Columns [some] that are the same for seats between which no job can tell."""
    alone = np.full(len(seats.gpus), -1)
    alone[seats.kept] = seats.kept
    own = np.flatnonzero(np.isin(seats.gpu_id, list(avoided)))
    alone[own] = own
    levels = [
        np.searchsorted(np.unique(need), left[some], side="right")
        for need, left in _scarcities(seats, classes)
    ]
    bound = seats.most_slowdown[some]
    return [seats.load[some], seats.kind[some], alone[some], bound, *levels]


def _only(
    seats: Seats, row_of: Ints, own: Ints, open_: Bools, class_of: Mapping[UUID, int]
) -> dict[int, int]:
    """Closed GPUs are for who runs there, and those that are kept for a job for that one."""
    only = {row: int(own[row]) for row in np.flatnonzero(~open_).tolist()}
    kept = [(int(row_of[at]), seats.gpus[at].held_for) for at in seats.kept.tolist()]
    only |= {row: class_of[job] for row, job in kept if job in class_of}
    only.pop(-1, None)
    return only


def _avoided_pairs(
    seats: Seats, row_of: Ints, avoided: Sequence[tuple[int, int]]
) -> tuple[Ints, Ints]:
    """Rows and classes, from ids of GPUs and classes."""
    if not avoided:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    gpu, job_class = np.array(sorted(avoided), np.int64).T
    seat = columns.places(seats.gpu_id, gpu, np.argsort(seats.gpu_id))
    row, job_class = row_of[seat[seat >= 0]], job_class[seat >= 0]
    return row[row >= 0], job_class[row >= 0]


# --- what stands between ------------------------------------------------------------------


def _kinds(kinds: Sequence[GpuFacts], jobs: Sequence[JobFacts]) -> Mapping[Code, Bools]:
    """[kinds, classes] what a job asks for by name and a GPU has not, and the other way round."""
    return {
        Code.POOL: _not_among([gpu.pool for gpu in kinds], [job.pools for job in jobs]),
        Code.MODEL: _not_among([gpu.model for gpu in kinds], [job.gpu_models for job in jobs]),
        Code.LABELS: _unlabelled([gpu.labels for gpu in kinds], [job.labels for job in jobs]),
        Code.CONSERVATIVE: _where(kinds, _is_tier_1, jobs, _is_conservative),
        Code.UNPROVEN: _where(kinds, _wants_proven, jobs, lambda job: not job.proven),
    }


def _not_among(names: Sequence[str], allowed: Sequence[tuple[str, ...]]) -> Bools:
    """[names, allowed] True where `allowed` names some, but not this one."""
    return _table(names, allowed, lambda name, few: bool(few) and name not in few)


def _unlabelled(labels: Sequence[frozenset[str]], asked: Sequence[frozenset[str]]) -> Bools:
    """[labels, asked] True where one that is asked for is missing."""
    return _table(labels, asked, lambda has, wants: not wants <= has)


def _table(down: Sequence[A], across: Sequence[B], says: Callable[[A, B], bool]) -> Bools:
    """[down, across] what `says` says, which is asked once for each two that differ."""
    rows: dict[A, int] = {}
    row = columns.codes(down, rows)
    few: dict[B, int] = {}
    column = columns.codes(across, few)
    told = [says(one, other) for one in rows for other in few]
    return np.array(told, bool).reshape(len(rows), len(few))[np.ix_(row, column)]


def _where(
    kinds: Sequence[GpuFacts],
    one: Callable[[GpuFacts], bool],
    jobs: Sequence[JobFacts],
    other: Callable[[JobFacts], bool],
) -> Bools:
    down = np.array([one(gpu) for gpu in kinds], bool)
    across = np.array([other(job) for job in jobs], bool)
    both: Bools = down[:, None] & across
    return both


def _is_tier_1(gpu: GpuFacts) -> bool:
    return gpu.tier is not None and gpu.tier <= TIER_1


def _is_conservative(job: JobFacts) -> bool:
    return job.profile_source == CONSERVATIVE


def _wants_proven(gpu: GpuFacts) -> bool:
    return gpu.tier is not None and gpu.tier <= gpu.rules.proven_for_tier


def _scarcities(seats: Seats, classes: Classes) -> Iterator[tuple[Floats, Floats]]:
    """What classes need, and what seats have left of it; only of what somebody needs."""
    yield classes.memory_bytes, seats.quota_bytes
    if classes.cpu_cores.any():
        yield classes.cpu_cores, seats.cpu_free
    if classes.host_memory_bytes.any():
        yield classes.host_memory_bytes, seats.host_memory_free_bytes


_SCARCE: Final = (Code.MEMORY, Code.HOST_CPU, Code.HOST_MEMORY)


def _scarce(
    seats: Seats, classes: Classes, seat: Ints, job_class: Ints
) -> Iterator[tuple[Code, Bools]]:
    needs = (classes.memory_bytes, classes.cpu_cores, classes.host_memory_bytes)
    for code, need in zip(_SCARCE, needs, strict=True):
        if need.any():
            yield code, need[job_class] > _left(seats, code)[seat][:, None]


def _left(seats: Seats, code: Code) -> Floats:
    if code is Code.MEMORY:
        return seats.quota_bytes
    return seats.cpu_free if code is Code.HOST_CPU else seats.host_memory_free_bytes


def _held(rows: Rows, row: Ints, job_class: Ints) -> Bools:
    held = np.zeros((len(row), len(job_class)), bool)
    for at in np.flatnonzero(np.isin(row, list(rows.only))).tolist():
        held[at] = job_class != rows.only[int(row[at])]
    return held


def _avoided(rows: Rows, row: Ints, job_class: Ints) -> Bools:
    avoided = np.zeros((len(row), len(job_class)), bool)
    for at, number in zip(*rows.avoided, strict=True):
        avoided[np.ix_(row == at, job_class == number)] = True
    return avoided


# --- worth --------------------------------------------------------------------------------


def _scores(
    seats: Seats, demand: Demand, matched: Ints, predictor: Predictor, memory: Memory
) -> Scored:
    """By load, -1 for loads that nobody asks about, and class. Also of GPUs whose jobs may not
    move: who would be next best there is asked afterwards."""
    useful = np.flatnonzero(seats.share_percent > 0.0)
    loads = np.unique(seats.load[np.union1d(matched, useful)])
    profiles, profile = np.unique(demand.classes.profile, return_inverse=True)
    found = memory.scores(predictor, seats.online.take(loads), demand.profiles.take(profiles))
    row = np.full(len(seats.online.key), -1, np.int64)
    row[loads] = found.row
    return Scored(found.throughput, found.slowdown, row, found.column[profile])


def _worth(
    seats: Seats, classes: Classes, kinds: Mapping[Code, Bools], foreseen: Foreseen, rows: Rows
) -> Worths:
    worth = _of_seats(seats, classes, kinds, foreseen, rows.first)
    worth[rows.avoided] = 0
    every = np.arange(len(classes))
    for row, only in rows.only.items():
        worth[row, every != only] = 0
    return worth


def _of_seats(
    seats: Seats, classes: Classes, kinds: Mapping[Code, Bools], foreseen: Foreseen, some: Ints
) -> Worths:
    """[some, classes] as far as predictions go, and what a job can ask for or be kept from."""
    masks = list(_masks(seats, classes, kinds))
    worth = np.empty((len(some), len(classes)), np.int32)
    for piece in _pieces(len(some)):
        seat, part = some[piece], worth[piece]
        np.take(foreseen.worth, foreseen.line[seat], axis=0, out=part, mode="clip")
        for index, mask in masks:
            part &= mask[index[seat]]
    return worth


def _masks(
    seats: Seats, classes: Classes, kinds: Mapping[Code, Bools]
) -> Iterator[tuple[Ints, Worths]]:
    """What stands between seats and classes: which line of a table holds for each seat, and the
    table, whose columns are classes; all bits where they may meet and none where not."""
    yield seats.kind, _bits(~np.logical_or.reduce(list(kinds.values())))
    for need, left in _scarcities(seats, classes):
        levels, level = np.unique(need, return_inverse=True)
        enough = level < np.arange(len(levels) + 1)[:, None]
        yield np.searchsorted(levels, left, side="right"), _bits(enough)


def _bits(allowed: Bools) -> Worths:
    return -allowed.astype(np.int32)


def _foreseen(seats: Seats, classes: Classes, scores: Scored, memory: Memory) -> Foreseen:
    """For each bound on slowdown that some seat has a line for each load that is scored, and one
    for all others."""
    scored = np.flatnonzero(scores.row >= 0)
    load = np.array(seats.online.key, np.int64)[scored]
    weight = classes.weight.astype(np.float32)
    rows = replace(scores, row=scores.row[scored])
    bounds, bound = np.unique(seats.most_slowdown, return_inverse=True)
    tables = memory.worths.of(bounds.tolist(), load, classes.key, weight, rows)
    nothing = np.zeros((1, len(classes)), np.int32)
    place = np.full(len(scores.row), -1)
    place[scored] = np.arange(len(scored))
    at = place[seats.load]
    line = np.where(at < 0, len(bounds) * len(scored), bound * len(scored) + at)
    return Foreseen(np.concatenate([*tables, nothing]), line)


def _pieces(rows: int) -> list[slice]:
    return [slice(at, at + _PIECE) for at in range(0, rows, _PIECE)]


# --- running jobs -------------------------------------------------------------------------


def _guests(
    field: Field,
    seats: Seats,
    demand: Demand,
    scores: Scored,
    predictor: Predictor,
    memory: Memory,
) -> Guests:
    """What they do where they are, and what a restart would cost them."""
    count = len(field.guests)
    seat, job = len(field.free) + np.arange(count), len(field.waiting) + np.arange(count)
    running = list(map(attrgetter("running"), field.guests))
    started, left = columns.numbers(running, "share_percent"), seats.share_percent[seat]
    share = np.maximum(shares.LEAST, np.minimum(started, left))
    hosted = Judge(predictor, memory, seats, demand).hosted(seat, job, share)
    throughput, slowdown = hosted.throughput.copy(), hosted.slowdown.copy()
    _as_scored(throughput, slowdown, field, seats, demand, scores)
    unsaved = columns.numbers(running, "unsaved_work_s")
    cost = weights.cost_work_s(unsaved, seats.restart_s[seat], throughput)
    left_s = columns.numbers(running, "left_work_s") + unsaved
    gain = weights.least_gain(cost, left_s, seats.move_min_gain[seat])
    weight = demand.weight[job]
    return Guests(
        seat=seat,
        job=job,
        hosted=hosted,
        throughput=throughput,
        cost_work_s=cost,
        least_gain=gain,
        worth=weights.millionths(weights.worth(throughput, slowdown, weight)),
        staying=weights.millionths(weight * gain),
    )


def _as_scored(
    throughput: Floats,
    slowdown: Floats,
    field: Field,
    seats: Seats,
    demand: Demand,
    scores: Scored,
) -> None:
    """Who may move is judged by the ruler of all other pairs, with all that online leaves: a share
    that was smaller at the start is made good by a restart where it is, and no reason to move."""
    at = np.flatnonzero(seats.share_percent[len(field.free) :][: field.moving] > 0.0)
    job_class = demand.job_class[len(field.waiting) + at]
    load = seats.load[len(field.free) + at]
    where = scores.row[load], scores.column[job_class]
    throughput[at], slowdown[at] = scores.throughput[where], scores.slowdown[where]


def _let_stay(worth: Worths, rows: Rows, guests: Guests, free: int) -> None:
    """The pair of a running job and its GPU: whatever stands between them now, it runs there.
    `free` seats come before those of running jobs."""
    row = np.flatnonzero(rows.own >= 0)
    at, own = rows.first[row] - free, rows.own[row]
    staying = np.maximum(guests.worth[at] + guests.staying[at], 1)
    worth[row, own] = np.maximum(worth[row, own], staying)
