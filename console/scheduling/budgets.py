"""How much rounds may still do: restarts of a pool, interruptions of a job, jobs of a team."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple
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


class Restarts(NamedTuple):
    """Of one pool: restarts of the last hour with those that may come, and the latter alone."""

    spent: int = 0
    waiting: int = 0


def restarts_left(
    pools: Mapping[Pool, PolicyBody], gpus: Mapping[int, int], known: Mapping[int, Restarts]
) -> dict[str, int]:
    """By pool name, how many running jobs may still be moved away this hour.

    `gpus` is how many each pool has, `known` its restarts, both by its id.
    """
    bounds = _bounds(pools, gpus, known)
    return {name: max(0, min(by_hour, at_once)) for name, (by_hour, at_once) in bounds.items()}


def moves_open(
    pools: Mapping[Pool, PolicyBody], gpus: Mapping[int, int], known: Mapping[int, Restarts]
) -> frozenset[str]:
    """The names of pools whose hour would allow more, if fewer moves were open."""
    bounds = _bounds(pools, gpus, known)
    return frozenset(name for name, (by_hour, at_once) in bounds.items() if at_once < by_hour)


def _bounds(
    pools: Mapping[Pool, PolicyBody], gpus: Mapping[int, int], known: Mapping[int, Restarts]
) -> dict[str, tuple[int, int]]:
    """By pool name, what the hour leaves and what may be open at once; below 0 when overdrawn."""
    found = {}
    for pool, body in pools.items():
        restarts = known.get(pool.pk, Restarts())
        at_once = max(WAIT_LEAST, int(gpus.get(pool.pk, 0) * WAIT_PART))
        by_hour = body.restarts_per_hour - restarts.spent
        found[pool.name] = by_hour, at_once - restarts.waiting
    return found


def restarts(now: datetime) -> dict[int, Restarts]:
    """By pool id; one query."""
    waits = Q(state__in=Eviction.OPEN)
    went = Q(state__in=(Eviction.State.COMPLETED, Eviction.State.FAILED), ended_at__gt=now - HOUR)
    rows = Eviction.objects.filter(waits | went, origin__in=BY_ROUNDS).values("gpu__node__pool")
    counted = rows.annotate(all=Count("pk"), waiting=Count("pk", filter=waits)).order_by()
    return {row["gpu__node__pool"]: Restarts(row["all"], row["waiting"]) for row in counted}


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
