"""Observing pairs, watching how well they are predicted, and learning from them."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.utils import timezone

from console.doorbell import RUN_TRAINING
from console.predictor import observing, training, watching
from workers import schooling
from workers.tasks.register import holder, task, task_alone

OBSERVE_PAIRS: Final = "telemetry.observe_pairs"
WATCH_PREDICTOR: Final = "default.watch_predictor"


@task_alone(OBSERVE_PAIRS)
def observe_pairs() -> None:
    observing.observe(timezone.now())


@task_alone(WATCH_PREDICTOR, lease_s=60.0)
def watch_predictor() -> None:
    from workers.judging import measure  # the predictor takes a moment to load; beat needs none

    watching.watch(timezone.now(), measure, schooling.trainer())


@task(RUN_TRAINING)
def run_training(run_id: str = "") -> None:
    """Without an id: whatever a lost bell or a dead worker left behind."""
    if run_id:
        training.perform(UUID(run_id), holder(), timezone.now, schooling.train)
    else:
        training.perform_waiting(holder(), timezone.now, schooling.train)
