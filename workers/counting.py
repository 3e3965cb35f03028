"""What a worker or beat counts: tasks by how they went, how long they took and waited."""

from __future__ import annotations

import time
from typing import Any, Final

from celery.signals import (
    before_task_publish,
    task_failure,
    task_postrun,
    task_prerun,
    task_received,
    task_revoked,
)
from django.conf import settings
from prometheus_client import Counter, Gauge, Histogram

from console.metrics import server
from console.metrics.process import REGISTRY, watch_database
from console.telemetry.loops import cause

# From a sweep that finds nothing to a round of a large fleet. Our choice.
BOUNDS_S: Final = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)

duration_s: Final = Histogram(
    "muxflow_task_duration_seconds", "How long tasks took.", ["task"], buckets=BOUNDS_S,
    registry=REGISTRY,
)  # fmt: skip
wait_s: Final = Histogram(
    "muxflow_task_wait_seconds", "From the bell to the start of a task.", ["task"],
    buckets=BOUNDS_S, registry=REGISTRY,
)  # fmt: skip
failed: Final = Counter(
    "muxflow_task_failures", "Tasks that failed, by cause.", ["task", "cause"], registry=REGISTRY
)
held: Final = Counter(
    "muxflow_task_held", "Tasks left alone: another worker was at it.", ["task"], registry=REGISTRY
)
too_late: Final = Counter(
    "muxflow_task_expired", "Tasks that came too late to be worth it.", ["task"], registry=REGISTRY
)
rung: Final = Counter("muxflow_task_rung", "Bells rung.", ["task"], registry=REGISTRY)
running: Final = Gauge("muxflow_tasks_running", "Tasks that run.", registry=REGISTRY)
last_heard: Final = Gauge(
    "muxflow_worker_heard_timestamp_seconds", "When it last heard a bell, in Unix time.",
    registry=REGISTRY,
)  # fmt: skip

_began: Final[dict[str, float]] = {}


def start() -> None:
    """Count from now on, and show it where the settings say. Called once in a process."""
    watch_database()
    before_task_publish.connect(_rung)
    task_received.connect(_heard)
    task_prerun.connect(_begins)
    task_postrun.connect(_ends)
    task_failure.connect(_fails)
    task_revoked.connect(_revoked)
    if settings.METRICS_PORT:
        server.serve(settings.METRICS_HOST, settings.METRICS_PORT, settings.METRICS_TOKEN)


def _rung(sender: str = "", **_: Any) -> None:
    rung.labels(sender).inc()


def _heard(**_: Any) -> None:
    last_heard.set_to_current_time()


def _begins(task_id: str, task: Any, **_: Any) -> None:
    _began[task_id] = time.perf_counter()
    running.inc()
    asked_at = getattr(task.request, "asked_at", None)
    if asked_at is not None:
        wait_s.labels(task.name).observe(max(0.0, time.time() - asked_at))


def _ends(task_id: str, task: Any, **_: Any) -> None:
    began = _began.pop(task_id, None)
    if began is not None:
        running.dec()
        duration_s.labels(task.name).observe(time.perf_counter() - began)


def _fails(sender: Any, exception: BaseException, **_: Any) -> None:
    failed.labels(sender.name, cause(exception)).inc()


def _revoked(sender: Any, expired: bool = False, **_: Any) -> None:
    if expired:
        too_late.labels(sender.name).inc()
