"""Evictions that the clock moves: dispatch, deadlines, stops that are stuck."""

from __future__ import annotations

from django.utils import timezone

from console.doorbell import TICK_EVICTIONS
from console.evictions import services
from workers.tasks.register import task_alone


@task_alone(TICK_EVICTIONS)
def tick_evictions() -> None:
    services.tick(timezone.now())
