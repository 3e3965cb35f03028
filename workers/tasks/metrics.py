"""The page of the fleet for Prometheus."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.metrics.fleet.rendering import render_fleet
from workers.tasks.register import task_alone

RENDER_FLEET: Final = "telemetry.render_metrics"


@task_alone(RENDER_FLEET, lease_s=60.0)
def render_metrics() -> None:
    render_fleet(timezone.now)
