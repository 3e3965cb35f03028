"""Jobs without a profile: measured on free GPUs, or not in time."""

from __future__ import annotations

from django.utils import timezone

from console.doorbell import TICK_PROFILING
from console.scheduling import profiling
from console.workloads.queries import live
from workers.tasks.register import task_alone


@task_alone(TICK_PROFILING)
def tick_profiling() -> None:
    profiling.tick(live(), timezone.now())
