"""Forecasts of the online load of every GPU."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.forecasts import services
from workers.reallocation.forecast import forecast
from workers.tasks.register import task_alone

LOOK: Final = "telemetry.foretell_online"


@task_alone(LOOK, lease_s=60.0)
def foretell_online() -> None:
    services.look(timezone.now(), forecast)
