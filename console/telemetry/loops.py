"""Background loops of a web process: they end when they are told to, and for no other reason."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import redis
from django.db import Error as DatabaseError

log = logging.getLogger(__name__)

LONGEST_PAUSE_S: Final = 5.0
FIRST_PAUSE_S: Final = 0.25

# Of this process, by the name of the loop and the cause.
failures_seen: Final = Counter[tuple[str, str]]()


async def forever(name: str, step: Callable[[], Awaitable[None]], period_s: float) -> None:
    """Run `step` every `period_s`; while it fails, wait longer each time, up to 5 s."""
    loop = asyncio.get_running_loop()
    due, failures = loop.time(), 0
    while True:
        try:
            await step()
        except Exception as error:
            failures += 1
            failures_seen[name, cause(error)] += 1
            _complain(name, error, failures)
        else:
            if failures:
                log.info("%s works again after %d failures", name, failures)
            failures = 0
        due = max(due + period_s, loop.time())
        await asyncio.sleep(max(due - loop.time(), pause_s(failures)))


def pause_s(failures: int) -> float:
    """Nothing while all is well; then doubling, jittered so that processes do not march in step."""
    if not failures:
        return 0.0
    longest = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(failures, 10))
    return random.uniform(longest / 2, longest)


def cause(error: BaseException) -> str:
    """Who is to blame: `database`, `redis` or `other`."""
    if isinstance(error, DatabaseError):
        return "database"
    return "redis" if isinstance(error, redis.RedisError) else "other"


def _complain(name: str, error: Exception, failures: int) -> None:
    if failures & (failures - 1) == 0:  # the 1st, 2nd, 4th, 8th … time
        log.warning(
            "%s failed, try %d comes: %s: %s", name, failures + 1, type(error).__name__, error
        )
