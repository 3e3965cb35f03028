"""The page of the fleet in Redis: one worker puts it down, every web process shows the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

import redis
from django.conf import settings

from console import live_state
from console.errors import Unavailable
from console.metrics.exposition import Format

# After so many periods without a new one the page is gone: nothing is shown frozen.
KEPT_PERIODS: Final = 4


def put(pages: Mapping[Format, bytes]) -> None:
    """Both formats at once. Raises Unavailable."""
    kept_s = KEPT_PERIODS * settings.METRICS_PERIOD_S
    try:
        with live_state.client().pipeline(transaction=True) as pipe:
            for form, page in pages.items():
                pipe.set(_key(form), page, ex=kept_s)
            pipe.execute()
    except redis.RedisError as error:
        raise Unavailable(f"Redis does not take the metrics of the fleet: {error}") from error


def get(form: Format) -> bytes:
    """The page, gzip. Raises Unavailable when there is none that tells of now."""
    try:
        page = cast("bytes | None", live_state.client().get(_key(form)))
    except redis.RedisError as error:
        raise Unavailable(f"Redis does not answer: {error}") from error
    if page is None:
        raise Unavailable(
            "No worker has made the metrics of the fleet for"
            f" {KEPT_PERIODS * settings.METRICS_PERIOD_S} s: see that a worker and beat run."
        )
    return page


def _key(form: Format) -> str:
    return f"{settings.REDIS_PREFIX}:metrics:fleet:{form}"
