"""Tell open pages that something changed, so that they read it again. A lost one costs little."""

from __future__ import annotations

import json
import logging
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)


def announce(op: str, **facts: Any) -> None:
    """`announce("evictions", id=1)`: pages get `mf:event` {op, id} after the commit. Never raises."""
    transaction.on_commit(lambda: _publish(op, facts), robust=True)


def channel() -> str:
    """The Redis channel; each message is one JSON object with the key `op`."""
    return f"{settings.REDIS_PREFIX}:ui"


def _publish(op: str, facts: dict[str, Any]) -> None:
    text = json.dumps({"type": "event", "op": op, **facts}, default=str)
    try:
        _client().publish(channel(), text)
    except redis.RedisError as error:
        log.info("pages were not told of %s: %s", op, error)


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=0.5, socket_connect_timeout=0.5)
