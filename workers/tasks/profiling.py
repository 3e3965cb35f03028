"""What workloads use: jobs measured on free GPUs, services wherever they run."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.doorbell import TICK_PROFILING
from console.scheduling import profiling
from console.workloads import service_profiles
from console.workloads.queries import live
from workers.tasks.register import task_alone

WATCH_SERVICES: Final = "telemetry.watch_services"


@task_alone(TICK_PROFILING)
def tick_profiling() -> None:
    profiling.tick(live, timezone.now())


@task_alone(WATCH_SERVICES)
def watch_services() -> None:
    service_profiles.watch(live(), timezone.now())
