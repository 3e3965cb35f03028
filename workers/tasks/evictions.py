"""What the clock moves: dispatch, deadlines, stops that are stuck, plans that nobody decided."""

from __future__ import annotations

from django.utils import timezone

from console.doorbell import TICK_EVICTIONS
from console.evictions import services
from console.scheduling import move_plans
from workers.tasks.register import task_alone


@task_alone(TICK_EVICTIONS)
def tick_evictions() -> None:
    now = timezone.now()
    services.tick(now)
    move_plans.settle(now)
