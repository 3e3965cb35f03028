"""SM shares of what runs."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.scheduling import reallocation
from workers.reallocation.shares import target
from workers.tasks.register import task_alone

REALLOCATE: Final = "reallocation.reallocate"


@task_alone(REALLOCATE, lease_s=60.0)
def reallocate() -> None:
    reallocation.reallocate(timezone.now(), target)
