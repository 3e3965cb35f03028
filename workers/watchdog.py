"""End a worker that is deaf: its queues hold messages, it is idle, and it has heard none for long.

A worker reconnects by itself when its broker comes back. Should that ever fail, the process lives
and does nothing; then it ends with a status that makes its supervisor start it anew.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final, cast

import redis
from celery.signals import task_received
from celery.worker import state
from django.conf import settings

log = logging.getLogger(__name__)

EVERY_S: Final = 5.0
# Far longer than any bell waits for a worker that is not full. Our choice.
DEAF_AFTER_S: Final = 40.0
EXIT_DEAF: Final = 70


class Watchdog:
    """`heard` at each message; `is_deaf` once messages wait and none was heard for too long."""

    def __init__(self, slots: int, now: float) -> None:
        self.slots, self.heard_at = slots, now

    def heard(self, now: float) -> None:
        self.heard_at = now

    def is_deaf(self, waiting: int, active: int, now: float) -> bool:
        """A full worker is busy, not deaf; without messages there is nothing to hear."""
        if not waiting or active >= self.slots:
            self.heard_at = max(self.heard_at, now - DEAF_AFTER_S / 2)
            return False
        return now - self.heard_at > DEAF_AFTER_S


def start(consumer: Any, stop: Callable[[int], None] = os._exit) -> None:
    """Watch the worker of `consumer` in a thread of its own."""
    dog = Watchdog(slots=consumer.pool.num_processes, now=time.monotonic())
    task_received.connect(lambda **_: dog.heard(time.monotonic()), weak=False)
    queues = [queue.name for queue in consumer.task_consumer.queues]
    threading.Thread(target=_watch, args=(dog, queues, stop), daemon=True).start()


def _watch(dog: Watchdog, queues: list[str], stop: Callable[[int], None]) -> None:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
    while True:
        time.sleep(EVERY_S)
        waiting = _waiting(client, queues)
        if dog.is_deaf(waiting, len(state.active_requests), time.monotonic()):
            log.critical("%d messages wait and none was heard: ending, to be started anew", waiting)
            stop(EXIT_DEAF)
            return


def _waiting(client: redis.Redis, queues: list[str]) -> int:
    """Messages in our queues; 0 while the broker is away, which is not our fault."""
    prefix = f"{settings.REDIS_PREFIX}:celery:"
    try:
        return sum(cast("int", client.llen(f"{prefix}{queue}")) for queue in queues)
    except redis.RedisError:
        return 0
