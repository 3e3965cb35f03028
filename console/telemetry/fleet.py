"""The fleet as a whole: now, and one sample a pool every few seconds for before and after."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.conf import settings
from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Sum

from agents.wire.names import PlacementState, Signal
from console.errors import Unavailable
from console.inventory.models import Pool
from console.scheduling.models import Placement
from console.telemetry import counts, latest, layout, live_store, summary
from console.telemetry.latest import Bytes, Field, Flag, Flags, Grid
from console.telemetry.models import FleetSample
from console.telemetry.view import EVERYTHING, Sight

# A pause of the sampler longer than this many periods counts as this long: nobody watched.
LONGEST_PERIODS: Final = 3


@dataclass(frozen=True)
class Totals:
    """What a pool's jobs did: how many run, at which speed in all, what was lost so far (GPU-s)."""

    running: int = 0
    equivalent_gpus: float = 0.0
    lost_work_s: float = 0.0
    restart_s: float = 0.0


def sample(now: datetime) -> list[FleetSample]:
    """Write one sample a pool: eight queries and one read of Redis, whatever the size."""
    grid = _grid()
    cells = latest.cells(grid, now.timestamp())
    pools = list(Pool.objects.values_list("pk", flat=True))
    totals, before = (
        _totals(),
        {one.pool_id: one for one in last_samples(FleetSample.objects.all())},
    )
    return FleetSample.objects.bulk_create(
        [
            _sample(pool, grid, cells, totals.get(pool, Totals()), before.get(pool), now)
            for pool in pools
        ],
        ignore_conflicts=True,
    )


def summary_now(now: float, pools: Sight = EVERYTHING) -> dict[str, Any]:
    """The numbers of the live summary for those who see these pools, from all web processes.
    Without Redis nothing is live."""
    grid = _grid()
    if pools is not None:
        grid = grid.part(np.flatnonzero(np.isin(grid.facts.pool, list(pools))))
    return summary.summarise(grid, latest.cells(grid, now), counts.of_work(pools), now)


def last_samples(samples: QuerySet[FleetSample]) -> list[FleetSample]:
    """The newest of `samples` of each pool."""
    newest = samples.order_by().values("pool").annotate(newest=Max("pk")).values("newest")
    return list(samples.filter(pk__in=newest).select_related("pool").order_by("pool__name"))


def _grid() -> Grid:
    """Every process's samples; without Redis an empty grid, in which everything is missing."""
    grid = Grid(layout.load().facts)
    with suppress(Unavailable):
        live_store.fill(grid)
    return grid


def _sample(
    pool: int, grid: Grid, cells: Bytes, totals: Totals, before: FleetSample | None, now: datetime
) -> FleetSample:
    mine: Flags = grid.facts.pool == pool
    live = summary.is_live(cells) & mine
    ratios = summary.service_ratios(grid, live)
    return FleetSample(
        at=now,
        pool_id=pool,
        gpus=int(mine.sum()),
        reporting=int(live.sum()),
        sharing=int((mine & (cells[:, Field.FLAGS] & Flag.ENFORCE > 0)).sum()),
        running=totals.running,
        sm_activity_percent=summary.mean(grid.column(Signal.SM_ACTIVITY), live),
        gpu_util_percent=summary.mean(grid.column(Signal.GPU_UTIL), live),
        memory_percent=summary.mean(latest.memory_percent(grid), live),
        online_p99_slo_ratio=ratios.median,
        online_p99_slo_ratio_worst=ratios.worst,
        services_over_slo=ratios.over,
        equivalent_gpus=totals.equivalent_gpus,
        equivalent_gpu_s_total=_equivalent_gpu_s(totals, before, now),
        lost_work_s_total=totals.lost_work_s,
        restart_s_total=totals.restart_s,
    )


def _equivalent_gpu_s(totals: Totals, before: FleetSample | None, now: datetime) -> float:
    """The integral of the speed by the trapezoid rule, in seconds of the world clock."""
    if before is None:
        return 0.0
    longest_s = LONGEST_PERIODS * settings.FLEET_SAMPLE_PERIOD_S
    passed_s = min(max(0.0, (now - before.at).total_seconds()), longest_s)
    mean = (before.equivalent_gpus + totals.equivalent_gpus) / 2
    return before.equivalent_gpu_s_total + mean * passed_s * settings.WORLD_CLOCK


def _totals() -> Mapping[int, Totals]:
    """By pool. A restart costs the time that a later attempt of a job spent starting."""
    running = Q(state=PlacementState.RUNNING)
    live = running | Q(state=PlacementState.FROZEN)
    earlier = Placement.objects.filter(job=OuterRef("job"), created_at__lt=OuterRef("created_at"))
    rows = (
        Placement.objects.annotate(is_restart=Exists(earlier))
        .order_by()
        .values(pool=F("gpu__node__pool"))
        .annotate(
            running=Count("pk", filter=live),
            speed=Sum("observed_throughput", filter=running),
            lost=Sum("lost_work_s"),
            starting=Sum(F("started_at") - F("created_at"), filter=Q(is_restart=True)),
        )
    )
    return {
        row["pool"]: Totals(
            row["running"],
            row["speed"] or 0.0,
            row["lost"] or 0.0,
            row["starting"].total_seconds() * settings.WORLD_CLOCK if row["starting"] else 0.0,
        )
        for row in rows
    }
