"""The connection to live state: what is lost with Redis, and made anew from what lasts."""

from __future__ import annotations

from functools import cache

import redis
from django.conf import settings


@cache
def client() -> redis.Redis:
    """One for the process. Whoever waits longer than this waits for a Redis that is away."""
    return redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2)
