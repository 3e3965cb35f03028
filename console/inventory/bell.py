"""Tell the gateways which nodes have a new generation. A lost message costs two seconds."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from functools import cache

import redis
from django.conf import settings
from django.db import transaction

log = logging.getLogger(__name__)

Publisher = Callable[[Sequence[int]], None]


def ring(node_ids: Sequence[int]) -> None:
    """Publish `node_ids` once the present transaction has committed. Never raises."""
    transaction.on_commit(lambda: _ring_now(node_ids), robust=True)


def channel() -> str:
    """The Redis channel; each message is a JSON list of node ids."""
    return f"{settings.REDIS_PREFIX}:bell:nodes"


def _ring_now(node_ids: Sequence[int]) -> None:
    try:
        publisher(node_ids)
    except Exception as error:
        log.warning("bell for nodes %s was lost, gateways poll: %s", node_ids, error)


def publish(node_ids: Sequence[int]) -> None:
    _client().publish(channel(), json.dumps(list(node_ids)))


@cache
def _client() -> redis.Redis:
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=0.5, socket_connect_timeout=0.5)


# Tests put a recording publisher here.
publisher: Publisher = publish
