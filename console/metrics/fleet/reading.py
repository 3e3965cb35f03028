"""Reads what the page of the fleet shows: the same few queries whatever the size of the fleet."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import Count, F, Max, QuerySet

from agents.wire.names import EventKind, PlacementState
from console.errors import Unavailable
from console.evictions.models import Eviction
from console.faults.models import Fault
from console.inventory.models import Gpu, Node, Pool
from console.metrics.fleet.facts import (
    FleetFacts,
    GpuRow,
    LeaseRow,
    NodeRow,
    PoolRow,
    PoolSample,
    RoundRow,
    ServiceRow,
)
from console.runs import health
from console.scheduling.models import Placement, Round
from console.telemetry import fleet, layout, live_store
from console.telemetry.latest import Grid
from console.telemetry.models import FleetSample, NodeEvent
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService

# Fleet samples older than this many periods tell of no more than the past.
SAMPLE_PERIODS: Final = 3


def read(now: Callable[[], datetime]) -> FleetFacts:
    """`now` is asked once the live grid is there, so that its ages are true."""
    grid = Grid(layout.load().facts)
    gpus, nodes, pools = _gpus(), _nodes(), _pools()
    with suppress(Unavailable):  # then nothing is live, and no sample is fresh
        live_store.fill(grid)
    moment = now()
    return FleetFacts(
        now=moment.timestamp(),
        grid=grid,
        gpus=gpus,
        nodes=nodes,
        pools=pools,
        services=_services(),
        instances=_instances(),
        samples=_samples(moment),
        evictions=_evictions(),
        open_evictions=_counted(
            Eviction.objects.filter(state__in=Eviction.OPEN), F("gpu__node__pool__name"), F("state")
        ),
        placements=_counted(
            Placement.objects.exclude(state=PlacementState.ENDED),
            F("gpu__node__pool__name"),
            F("state"),
        ),
        freezes=_single(
            _counted(NodeEvent.objects.filter(kind=EventKind.FROZEN), F("node__pool__name"))
        ),
        faults=_single(_counted(Fault.objects.all(), F("gpu__node__pool__name"))),
        jobs=_single(_counted(OfflineJob.objects.all(), F("state"))),
        rounds=_rounds(),
        leases=_leases(moment),
        waiting=health.broker().waiting,
    )


def _gpus() -> list[GpuRow]:
    rows = Gpu.objects.filter(retired_at=None).order_by("id").values_list(
        "id", "uuid", "index", "model", "driver", "memory_bytes", "node__name", "node__pool__name"
    )  # fmt: skip
    return [GpuRow(*row) for row in rows]


def _nodes() -> list[NodeRow]:
    rows = Node.objects.order_by("id").values_list(
        "name", "pool__name", "state", "source", "agent_version", "cordoned", "draining",
        "generation", "observed_generation", "observed_at", "last_seen_at",
    )  # fmt: skip
    return [_node(*row) for row in rows]


def _node(*row: Any) -> NodeRow:
    name, pool, state, source, version, cordoned, draining, wanted, told, told_at, seen_at = row
    behind = None if told_at is None else max(0, wanted - told)
    return NodeRow(name, pool, state, source, version, cordoned, draining, behind, _unix(seen_at))


def _pools() -> list[PoolRow]:
    rows = Pool.objects.order_by("name").values_list(
        "name", "sharing_mode", "policy__slug", "policy__current__number"
    )
    return [PoolRow(*row) for row in rows]


def _services() -> list[ServiceRow]:
    rows = OnlineService.objects.order_by("name").values_list(
        "name", "pool__name", "tier", "slo_p99_ms"
    )
    return [ServiceRow(*row) for row in rows]


def _instances() -> list[tuple[int, str]]:
    """The most important service of a GPU before its others."""
    ranked = OnlineInstance.objects.order_by("service__tier", "service__name")
    return [*ranked.values_list("gpu_id", "service__name")]


def _samples(now: datetime) -> list[PoolSample]:
    oldest = now - timedelta(seconds=SAMPLE_PERIODS * settings.FLEET_SAMPLE_PERIOD_S)
    return [
        PoolSample(
            one.pool.name,
            one.equivalent_gpus,
            one.equivalent_gpu_s_total,
            one.lost_work_s_total,
            one.restart_s_total,
        )
        for one in fleet.last_samples(FleetSample.objects.filter(at__gte=oldest))
    ]


def _evictions() -> dict[tuple[int, str, str], int]:
    done = Eviction.objects.filter(state=Eviction.State.COMPLETED)
    return _counted(done, F("gpu_id"), F("gpu__node__pool__name"), F("origin"))


def _rounds() -> list[RoundRow]:
    rows = (
        Round.objects.exclude(state=Round.State.RUNNING)
        .order_by()
        .values_list("kind", "state")
        .annotate(count=Count("pk"), last_at=Max("finished_at"))
    )
    return [RoundRow(kind, state, count, _unix(at)) for kind, state, count, at in rows]


def _leases(now: datetime) -> list[LeaseRow]:
    return [
        LeaseRow(one.name, bool(one.holder) and one.until > now, one.fence, one.until.timestamp())
        for one in health.leases()
    ]


def _counted(rows: QuerySet[Any], *by: F) -> dict[Any, int]:
    """How many rows there are of each key, a tuple of the values of `by`."""
    keys = {f"key_{index}": expression for index, expression in enumerate(by)}
    counted = rows.order_by().annotate(**keys).values_list(*keys).annotate(n=Count("pk"))
    return {tuple(key): n for *key, n in counted}


def _single(counts: dict[Any, int]) -> dict[str, int]:
    return {key: count for (key,), count in counts.items()}


def _unix(at: datetime | None) -> float | None:
    return None if at is None else at.timestamp()
