"""What the customer's Prometheus says of the services, asked once a minute."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.prometheus import services
from workers.tasks.register import task_alone

FETCH: Final = "telemetry.fetch_prometheus"


@task_alone(FETCH, lease_s=60.0)
def fetch() -> None:
    services.fetch(timezone.now())
