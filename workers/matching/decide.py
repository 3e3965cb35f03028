"""One round, from what was seen to what is decided. Pure; the clock only times its phases."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from console.scheduling import plan as plans
from console.scheduling.plan import Code, Kind, Plan, Verdict
from console.scheduling.snapshot import GpuFacts, JobFacts, Snapshot
from workers.matching import certificate, explain, moves, solve
from workers.matching.admission import Closed, closed
from workers.matching.market import Market, Slots
from workers.matching.moves import Found, Guest
from workers.matching.problem import SCALE, classes_of, problem_of, rows_of
from workers.matching.story import Story
from workers.prediction import analytic


@dataclass
class _Watch:
    """Seconds by phase."""

    clock: Callable[[], float]
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        began = self.clock()
        yield
        self.seconds[name] += self.clock() - began


def decide(snapshot: Snapshot, clock: Callable[[], float] = time.perf_counter) -> Plan:
    """Place waiting jobs on open GPUs for the most predicted throughput, and propose moves.

    Running jobs stay where they are; only a few, each of which pays by itself, are proposed for a
    move, and the GPU they would go to is kept free for them.
    """
    watch = _Watch(clock)
    with watch.phase("admit"):
        shut = {gpu.id: why for gpu in snapshot.gpus if (why := closed(gpu, snapshot.mode))}
        guests = _guests(snapshot, shut)
        taken = {guest.gpu.id for guest in guests}
        free = [gpu for gpu in snapshot.gpus if gpu.id not in shut and gpu.id not in taken]
        early, waiting = _split(snapshot.jobs, snapshot.at)
    with watch.phase("moves"):
        chosen = moves.choose(guests, free, waiting, snapshot.avoid, snapshot.moves_allowed)
        kept_free = {move.to.id for move in chosen}
        free = [gpu for gpu in free if gpu.id not in kept_free]
    story = _match(free, waiting, snapshot, watch)
    with watch.phase("explain"):
        verdicts = (
            *story.verdicts(),
            *_stay(guests, chosen),
            *(
                Verdict(Kind.UNUSED, why.code, why.why, gpu_id=gpu_id)
                for gpu_id, why in shut.items()
                if gpu_id not in taken
            ),
            *(_early(job) for job in early),
        )
    return _plan(verdicts, story, guests, chosen, snapshot, watch)


def _match(
    free: Sequence[GpuFacts], waiting: Sequence[JobFacts], snapshot: Snapshot, watch: _Watch
) -> Story:
    with watch.phase("score"):
        rows = rows_of(free, frozenset(gpu_id for _, gpu_id in snapshot.avoid))
        alone = {job_id for job_id, _ in snapshot.avoid}
        alone |= {gpu.held_for for gpu in free if gpu.held_for}
        problem = problem_of(rows, classes_of(waiting, frozenset(alone)), snapshot.avoid)
    with watch.phase("solve"):
        market = Market(problem.worth, rows.count, Slots.plain(problem.classes.count))
        solution = solve.assign(market)
    with watch.phase("prove"):
        proof = certificate.prove(market, solution)
    return Story(problem, free, waiting, solution.table(market), proof.price)


def _guests(snapshot: Snapshot, shut: dict[int, Closed]) -> list[Guest]:
    gpus = {gpu.id: gpu for gpu in snapshot.gpus}
    running = [one for one in snapshot.running if one.gpu_id in gpus]
    holders = [gpus[one.gpu_id] for one in running]
    return [
        Guest(one, gpu, float(speed), gpu.id not in shut)
        for one, gpu, speed in zip(running, holders, moves.speeds(running, holders), strict=True)
    ]


def _split(jobs: Sequence[JobFacts], now: datetime) -> tuple[list[JobFacts], list[JobFacts]]:
    """Those that may not start yet, and those that may."""
    early = [job for job in jobs if job.not_before and job.not_before > now]
    return early, [job for job in jobs if not (job.not_before and job.not_before > now)]


def _early(job: JobFacts) -> Verdict:
    text = f"{job.not_before:%H:%M:%S} UTC" if job.not_before else "later"
    return Verdict(Kind.WAIT, Code.NOT_BEFORE, f"Its next try is not before {text}.", job_id=job.id)


def _stay(guests: Sequence[Guest], chosen: Sequence[Found]) -> Iterator[Verdict]:
    moving = {move.guest.running.placement_id for move in chosen}
    for guest in guests:
        if guest.running.placement_id not in moving:
            yield explain.kept(guest)
    for move in chosen:
        yield explain.moved(move)


def _plan(
    verdicts: tuple[Verdict, ...],
    story: Story,
    guests: Sequence[Guest],
    chosen: Sequence[Found],
    snapshot: Snapshot,
    watch: _Watch,
) -> Plan:
    problem = story.problem
    running = sum(guest.speed * guest.running.job.weight for guest in guests)
    market = Market(problem.worth, problem.rows.count, Slots.plain(problem.classes.count))
    bound = certificate.bound(market, story.price)
    return Plan(
        placings=tuple(story.placings()),
        moves=tuple(_move(move) for move in chosen),
        verdicts=verdicts,
        throughput=sum(one.throughput for one in story.placings())
        + sum(guest.speed for guest in guests),
        objective=running + int((problem.worth * story.x).sum()) / SCALE,
        upper_bound=running + bound / SCALE,
        pairs=problem.pairs,
        inputs=_inputs(story, snapshot),
        seconds={name: round(seconds, 4) for name, seconds in watch.seconds.items()},
    )


def _move(move: Found) -> plans.Move:
    guest = move.guest
    evidence = {
        "throughput_now": guest.speed,
        "throughput_there": move.speed,
        "gain": move.gain,
        "least_gain": guest.least_gain,
        "cost_work_s": guest.cost_work_s,
        "pays_back_s": move.pays_back_s,
        "left_work_s": guest.running.left_work_s,
    }
    rounded = {name: round(value, 4) for name, value in evidence.items()}
    return plans.Move(
        placement_id=guest.running.placement_id,
        job_id=guest.running.job.id,
        from_gpu_id=guest.gpu.id,
        to_gpu_id=move.to.id,
        gain=move.gain,
        cost_work_s=guest.cost_work_s,
        pays_back_s=move.pays_back_s,
        why=explain.why_moved(move),
        evidence=rounded,
    )


def _inputs(story: Story, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "gpus_open": len(story.gpus),
        "gpus_running": len(snapshot.running),
        "jobs_waiting": len(story.jobs),
        "gpu_rows": len(story.problem.rows.members),
        "job_classes": len(story.problem.classes.members),
        "moves_allowed": snapshot.moves_allowed,
        "predictor": analytic.NAME,
    }
