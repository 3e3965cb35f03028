"""A task: its name, and the lease that lets one worker at a time do it."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import ParamSpec

from celery import current_task
from django.utils import timezone

from console.queue import app
from console.runs import leases
from workers.counting import held

P = ParamSpec("P")
Task = Callable[P, None]


def holder() -> str:
    """Who we are: two threads of one worker are two."""
    return f"{socket.gethostname()}:{os.getpid()}:{threading.get_ident()}"


def asked() -> tuple[str, datetime | None]:
    """The id of the message that the present task came of, and when it was sent, if it tells."""
    request = current_task.request if current_task else None
    sent = getattr(request, "asked_at", None)
    return getattr(request, "id", None) or "", datetime.fromtimestamp(sent, UTC) if sent else None


def task(name: str) -> Callable[[Task[P]], Task[P]]:
    """Register a function that takes leases itself, or needs none."""

    def register(function: Task[P]) -> Task[P]:
        app.task(name=name)(function)
        return function

    return register


def task_alone(name: str, lease_s: float = 10.0) -> Callable[[Task[P]], Task[P]]:
    """Register a function that does nothing while another worker is at it.

    A worker that dies in the middle holds it up for `lease_s`.
    """

    def register(function: Task[P]) -> Task[P]:
        @wraps(function)
        def alone(*args: P.args, **kwargs: P.kwargs) -> None:
            me = holder()
            fence = leases.acquire(name, me, lease_s, timezone.now())
            if fence is None:
                held.labels(name).inc()
                return
            try:
                function(*args, **kwargs)
            finally:
                leases.release(name, me, fence)

        return task(name)(alone)

    return register
