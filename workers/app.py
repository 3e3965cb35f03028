"""The Celery processes: `celery -A workers.app worker` and `… beat`, any number of each.

Beat only rings; each task takes a database lease first, so a bell rung twice does its work once.
"""

from __future__ import annotations

import os
from typing import Any, Final

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")
django.setup()

from celery.signals import beat_init, worker_ready  # noqa: E402
from django.conf import settings  # noqa: E402

from agents.wire.ready import notify_ready  # noqa: E402
from console import doorbell  # noqa: E402
from console.queue import app  # noqa: E402
from workers import counting, watchdog  # noqa: E402
from workers.tasks import (  # noqa: E402, F401  (importing a module registers its tasks)
    audit,
    evictions,
    forecast,
    history,
    imports,
    matching,
    metrics,
    nodes,
    prediction,
    profiling,
    prometheus,
    reallocation,
    telemetry,
)

# Task, and how often it is rung in seconds. A bell that nobody heard by the next one is void.
PERIODS: Final = (
    (doorbell.RUN_ROUND, settings.ROUND_PERIOD_S),
    (doorbell.ANSWER_WHY, 5),
    (reallocation.REALLOCATE, settings.REALLOCATION_PERIOD_S),
    (telemetry.SAMPLE_FLEET, settings.FLEET_SAMPLE_PERIOD_S),
    (metrics.RENDER_FLEET, settings.METRICS_PERIOD_S),
    (history.WRITE, settings.HISTORY_PERIOD_S),
    (history.ROLL, settings.HISTORY_ROLL_PERIOD_S),
    (history.FORGET, settings.FORGET_PERIOD_S),
    (prometheus.FETCH, settings.PROMETHEUS_PERIOD_S),
    (forecast.LOOK, settings.FORECAST_PERIOD_S),
    (doorbell.TICK_EVICTIONS, 1),
    (nodes.SWEEP_NODES, 2),
    (doorbell.TICK_PROFILING, 2),
    (profiling.WATCH_SERVICES, settings.SERVICE_PROFILE_PERIOD_S),
    (doorbell.SEAL_AUDIT, 5),
    (doorbell.RUN_IMPORT, 10),
    (prediction.OBSERVE_PAIRS, settings.OBSERVE_PERIOD_S),
    (prediction.WATCH_PREDICTOR, settings.WATCH_PREDICTOR_PERIOD_S),
    (doorbell.RUN_TRAINING, 10),
)

app.conf.beat_schedule = {
    name: {"task": name, "schedule": period_s, "options": {"expires": period_s}}
    for name, period_s in PERIODS
}


def worker_is_ready(sender: Any, **kwargs: Any) -> None:
    counting.start()
    watchdog.start(sender)
    notify_ready()


def beat_is_ready(**kwargs: Any) -> None:
    counting.start()
    notify_ready()


worker_ready.connect(worker_is_ready)
beat_init.connect(beat_is_ready)
