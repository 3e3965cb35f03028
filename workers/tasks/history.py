"""The history: written once a minute, rolled up when an hour or a day is over, and forgotten."""

from __future__ import annotations

from typing import Final

from django.utils import timezone

from console.history import forgetting, rollup, writing
from workers.tasks.register import task_alone

WRITE: Final = "telemetry.write_history"
ROLL: Final = "telemetry.roll_history"
FORGET: Final = "telemetry.forget_past"


@task_alone(WRITE, lease_s=60.0)
def write_history() -> None:
    writing.write(timezone.now())


@task_alone(ROLL, lease_s=60.0)
def roll_history() -> None:
    now = timezone.now()
    rollup.roll(now, writing.is_behind)
    rollup.forget(now)


@task_alone(FORGET, lease_s=300.0)
def forget_past() -> None:
    forgetting.forget(timezone.now())
