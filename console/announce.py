"""Tell open browsers that something changed, so that they fetch it again. Pages also poll: a
lost word costs seconds, never correctness.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from functools import cache
from typing import Any

import redis
from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)

Publisher = Callable[[str], None]


def announce(op: str, **facts: Any) -> None:
    """Send `{"op": op, …}` to every browser once the present transaction has committed.

    Never raises. `facts` are small and not secret: whoever is signed in may see them.
    """
    message = json.dumps({"op": op, **facts}, default=str)
    transaction.on_commit(lambda: _send(message), robust=True)


def channel() -> str:
    """The Redis channel; each message is a JSON object with `op`."""
    return f"{settings.REDIS_PREFIX}:ui"


def _send(message: str) -> None:
    try:
        publisher(message)
    except Exception as error:
        log.warning("%s did not reach the browsers: %s", message, error)


def publish(message: str) -> None:
    _client().publish(channel(), message)


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=0.5, socket_connect_timeout=0.5)


# Tests put a recording publisher here.
publisher: Publisher = publish
