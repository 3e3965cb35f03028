"""Look how well what is in force predicts what was observed since, and say when it drifts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from console.announce import announce
from console.predictor import drift, exchange, observing, registry, training
from console.predictor.models import DriftSample, Learning, PairObservation, PredictorVersion

log = logging.getLogger(__name__)

# Samples kept of one version.
KEPT: Final = 500


@dataclass(frozen=True)
class Error:
    """Mean absolute error of the predicted throughput, and the part that was out of range."""

    mae: float
    out_of_range_share: float


@dataclass(frozen=True)
class Trainer:
    """What a worker can train with: its name, or why it has none and the way out."""

    name: str
    missing: str


# The file of a version (None: the analytic estimate) and observations as CSV. Raises ValueError
# for a file that does not fit this release.
Measure = Callable[[bytes | None, str], Error]


def watch(now: datetime, measure: Measure, trainer: Trainer) -> None:
    """One look. A retraining that is due, by the schedule or by a drift, begins."""
    note_trainer(trainer, now)
    observing.forget()
    version = registry.active()
    rows = list(newest(version).order_by("-at")[: drift.NEWEST])
    if rows and _is_news(version, rows):
        _sample(version, rows, measure, now)
    training.begin_when_due(now)


def note_trainer(trainer: Trainer, now: datetime) -> None:
    row = registry.learning()
    Learning.objects.filter(pk=row.pk).update(
        trainer=trainer.name, no_trainer=trainer.missing, looked_at=now
    )


def newest(version: PredictorVersion | None) -> QuerySet[PairObservation]:
    """What the version was not trained on; of the cards that it serves."""
    rows = PairObservation.objects.all()
    if version is None:
        return rows
    return rows.filter(at__gte=version.made_at, simulated=version.simulated)


def _is_news(version: PredictorVersion | None, rows: list[PairObservation]) -> bool:
    last = DriftSample.objects.filter(version=version).order_by("-at").first()
    return last is None or rows[0].at > last.at


def _sample(
    version: PredictorVersion | None, rows: list[PairObservation], measure: Measure, now: datetime
) -> None:
    found = registry.active_data() if version else None
    try:
        error = measure(found[1] if found else None, exchange.text(rows))
    except ValueError as why:
        log.warning("How well %s does is not known: %s", registry.name_of(version), why)
        return
    DriftSample.objects.create(
        at=now,
        version=version,
        observations=len(rows),
        mae=error.mae,
        out_of_range_share=error.out_of_range_share,
    )
    old = DriftSample.objects.filter(version=version).order_by("-at").values_list("pk", flat=True)
    DriftSample.objects.filter(pk__in=list(old[KEPT : 2 * KEPT])).delete()
    announce("predictor")
