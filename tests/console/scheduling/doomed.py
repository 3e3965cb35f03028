"""A worker that is killed in the middle of a round: it says so when it is there, and waits."""

from __future__ import annotations

import os
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()

from console.inventory.models import Gpu  # noqa: E402
from console.scheduling import move_plans, peaks  # noqa: E402
from console.telemetry import live_store  # noqa: E402
from tests.console.scheduling.cast import a_round, live, one_each  # noqa: E402


def halt(*args: object) -> int:
    """The placements are written, and not committed yet."""
    print("placed", flush=True)  # noqa: T201  whoever started us waits for it
    time.sleep(60)
    return 0


if __name__ == "__main__":
    live_store.read = lambda: live(*Gpu.objects.all())
    peaks.note = lambda percent_now, at: dict(percent_now)
    move_plans.propose = halt  # type: ignore[assignment]
    a_round(holder="doomed", decided=one_each)
