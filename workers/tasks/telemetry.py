"""Samples of the whole fleet, for before and after."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.telemetry import fleet
from workers.tasks.register import task_alone

SAMPLE_FLEET: Final = "telemetry.sample_fleet"


@task_alone(SAMPLE_FLEET)
def sample_fleet() -> None:
    fleet.sample(timezone.now())
