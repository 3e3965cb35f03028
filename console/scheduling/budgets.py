"""How much rounds may still do: restarts of a pool, interruptions of a job, jobs of a team."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db.models import Count, Q

from agents.wire.names import Origin
from console.evictions.models import Eviction
from console.inventory.models import Pool
from console.policies.rules import PolicyBody
from console.scheduling import lifecycle
from console.workloads.models import Team

# Each move that waits keeps a GPU free: at most this part of a pool's, though always a few.
WAIT_PART: Final = 0.01
WAIT_LEAST: Final = 2
HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)
# What rounds wish for.
BY_ROUNDS: Final = (Origin.MOVE, Origin.PREEMPT)


def restarts_left(
    pools: Mapping[Pool, PolicyBody], gpus: Mapping[int, int], now: datetime
) -> dict[str, int]:
    """By pool name, how many running jobs may still be moved away this hour; one query.

    `gpus` is how many each pool has, by its id.
    """
    counts = _spent(now)
    return {
        pool.name: _left(body, gpus.get(pool.pk, 0), *counts.get(pool.pk, (0, 0)))
        for pool, body in pools.items()
    }


def _left(body: PolicyBody, gpus: int, spent: int, waiting: int) -> int:
    at_once = max(WAIT_LEAST, int(gpus * WAIT_PART))
    return max(0, min(body.restarts_per_hour - spent, at_once - waiting))


def _spent(now: datetime) -> dict[int, tuple[int, int]]:
    """By pool id: restarts of the last hour with those that may come, and the latter alone."""
    waits = Q(state__in=Eviction.OPEN)
    went = Q(state__in=(Eviction.State.COMPLETED, Eviction.State.FAILED), ended_at__gt=now - HOUR)
    rows = Eviction.objects.filter(waits | went, origin__in=BY_ROUNDS).values("gpu__node__pool")
    counted = rows.annotate(all=Count("pk"), waiting=Count("pk", filter=waits)).order_by()
    return {row["gpu__node__pool"]: (row["all"], row["waiting"]) for row in counted}


def interruptions(now: datetime) -> dict[UUID, int]:
    """By job that runs, how often rounds took it off in the last day; one query."""
    rows = Eviction.objects.filter(
        origin__in=BY_ROUNDS,
        state=Eviction.State.COMPLETED,
        ended_at__gt=now - DAY,
        placement__job__state=lifecycle.PLACED,
    )
    counted = rows.values("placement__job").annotate(n=Count("pk")).order_by()
    return {row["placement__job"]: row["n"] for row in counted}


def team_room() -> dict[str, int]:
    """By name, how many more jobs each team with a cap may run; one query."""
    live = Count("jobs__placements", filter=Q(jobs__placements__state__in=lifecycle.LIVE))
    capped = Team.objects.filter(max_running__isnull=False).annotate(live=live)
    return {team.name: max(0, (team.max_running or 0) - team.live) for team in capped}
