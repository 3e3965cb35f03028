"""Retraining: a Run that a worker does in a child process, and what becomes of its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Min, QuerySet

from console import doorbell
from console.accounts.models import User
from console.errors import Invalid, MuxFlowError, Refused
from console.predictor import exchange, queries, registry, schedule
from console.predictor.models import PairObservation, PredictorVersion
from console.predictor.queries import KIND
from console.predictor.schedule import Cause, Facts
from console.runs import services as runs
from console.runs.models import Run

Clock = Callable[[], datetime]
# Fraction done and a sentence; False: stop.
Progress = Callable[[float, str], bool]


class Stopped(Exception):
    """The training was to stop, or its run was taken over."""


class CannotTrain(Exception):
    """What failed, why, and the way out, in a sentence for a person."""


@dataclass(frozen=True)
class Lesson:
    """What a training is given. `active` is the file of the version in force, to compare with."""

    csv: str
    simulated: bool
    seed: int
    active: bytes | None


@dataclass(frozen=True)
class Learnt:
    """The file of a predictor, and its report as JSON holds it."""

    data: bytes
    report: dict[str, Any]


# Raises Stopped, CannotTrain.
Train = Callable[[Lesson, Progress], Learnt]


# --- begin --------------------------------------------------------------------------------


@transaction.atomic
def start(cause: Cause, user: User | None, now: datetime) -> Run:
    """The queued run. Raises PermissionDenied, and Refused when nothing can be trained now."""
    if user is not None:
        registry.require_engineer(user)
    registry.lock()  # of two who ask at once the second sees the run of the first
    known = facts()
    if known.is_training:
        raise Refused("A training is under way already.")
    if why := schedule.why_not(known):
        raise Refused(f"Nothing to train now: {why}")
    return runs.start(KIND, {"cause": cause.value}, user, doorbell.RUN_TRAINING, now)


def facts() -> Facts:
    """What the schedule goes by."""
    rows, learning = lesson_rows(), registry.learning()
    first = PairObservation.objects.aggregate(at=Min("at"))["at"]
    last = Run.objects.filter(kind=KIND).exclude(finished_at=None).order_by("-finished_at").first()
    since = last.finished_at if last else first
    return Facts(
        can_train=bool(learning.trainer),
        is_training=Run.objects.filter(kind=KIND, state__in=runs.OPEN).exists(),
        observations=rows.count(),
        pairs=rows.values("service", "family").distinct().count(),
        new=rows.filter(at__gte=last.created_at).count() if last else rows.count(),
        since=since,
        drifted=queries.has_drifted(),
    )


def lesson_rows() -> QuerySet[PairObservation]:
    """What is learnt from: real GPUs as soon as there is enough of them, else simulated ones.

    Never both: a version that has seen a simulated GPU serves no real one.
    """
    real = PairObservation.objects.filter(simulated=False)
    enough = real.count() >= schedule.LEAST_OBSERVATIONS
    return real if enough else PairObservation.objects.filter(simulated=True)


def begin_when_due(now: datetime) -> Run | None:
    """The run that the schedule or a drift begins; None when nothing is due."""
    cause = schedule.due(facts(), settings.RETRAIN_PERIOD_S, now)
    return start(cause, None, now) if cause else None


# --- do -----------------------------------------------------------------------------------


def perform_waiting(holder: str, clock: Clock, train: Train) -> None:
    """Do what was asked for and nobody does: its bell was lost, or its worker died."""
    for run_id in runs.waiting(KIND):
        perform(run_id, holder, clock, train)


def perform(run_id: UUID, holder: str, clock: Clock, train: Train) -> None:
    """Do the run, unless it is over or another worker's. Time passes while it goes on."""
    run = runs.claim(run_id, holder, clock())
    if run is None:
        return
    try:
        result = _learn(run, clock, train)
        runs.succeed(run, result, clock())
    except Stopped:
        runs.stopped(run, clock())
    except (CannotTrain, MuxFlowError) as error:
        runs.fail(run, str(error), clock())


def _learn(run: Run, clock: Clock, train: Train) -> dict[str, Any]:
    began_at, against = clock(), registry.active_data()
    lesson = _lesson(against[1] if against else None)
    learnt = train(lesson, partial(_tell, run, clock))
    if not runs.progress(run, 1.0, "Comparing"):
        raise Stopped
    version = registry.add(
        learnt.data,
        learnt.report,
        simulated=lesson.simulated,
        now=began_at,  # what is observed from here on is new to it
        run=run,
    )
    verdict = registry.judge(version, against[0] if against else None, clock())
    return {"version": version.number, "promoted": verdict.promote, "why": verdict.why}


def _lesson(active: bytes | None) -> Lesson:
    rows = lesson_rows().order_by("pk")
    first = rows.first()
    if first is None:
        raise Invalid("There are no observations to learn from.")
    return Lesson(exchange.text(rows.iterator()), first.simulated, _seed(), active)


def _tell(run: Run, clock: Clock, part: float, said: str) -> bool:
    """False when it is to stop. A training may take longer than the lease of its run."""
    runs.keep(run, clock())
    return runs.progress(run, part, said)


def _seed() -> int:
    """Another one each time, and the same one again for the same version."""
    return PredictorVersion.objects.count() + 1
