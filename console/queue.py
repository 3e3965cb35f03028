"""The Celery app object: routes, queues, expiry. It holds no tasks; `workers.app` registers them.

The row is the queue: a lost message changes nothing, so results are ignored and messages expire.
"""

from __future__ import annotations

import os
import time
from typing import Any

from celery import Celery
from celery.signals import before_task_publish
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "console.settings")

app = Celery("muxflow")
app.conf.update(
    broker_url=settings.REDIS_URL,
    broker_connection_retry_on_startup=True,
    broker_connection_max_retries=None,
    broker_transport_options={
        "global_keyprefix": f"{settings.REDIS_PREFIX}:celery:",
        "socket_keepalive": True,
        "socket_connect_timeout": 3,
        "health_check_interval": 10,
        "visibility_timeout": 3_600,
        # A bell rung at a dead broker is lost at once; the request that rang it never waits.
        "max_retries": 1,
        "interval_start": 0,
        "interval_step": 0,
    },
    task_ignore_result=True,
    task_serializer="json",
    accept_content=["json"],
    task_default_queue="default",
    task_routes={
        "matching.*": {"queue": "matching"},
        "reallocation.*": {"queue": "reallocation"},
        "telemetry.*": {"queue": "telemetry"},
    },
    # A worker that acknowledges on a connection that broke meanwhile would end.
    task_acks_late=False,
    worker_prefetch_multiplier=1,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    worker_hijack_root_logger=False,
    timezone="UTC",
)


def stamp(headers: dict[str, Any] | None = None, **kwargs: Any) -> None:
    """Say in each message when it was sent: one that comes late may have nothing left to do."""
    if headers is not None:
        headers["asked_at"] = time.time()


before_task_publish.connect(stamp)
