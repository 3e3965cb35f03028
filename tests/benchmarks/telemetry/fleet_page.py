"""Brings a database up to so many GPUs, all heard of just now, and makes the page of the fleet:
`python -m …fleet_page GPUS` with the environment of the console. Prints figures as JSON."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from typing import Final

import django

django.setup()

import numpy as np  # noqa: E402
from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connection  # noqa: E402
from django.test import Client  # noqa: E402
from django.test.utils import CaptureQueriesContext  # noqa: E402
from django.utils import timezone  # noqa: E402

from agents.wire.names import GpuState, Origin, PlacementState, SharingMode  # noqa: E402
from console.evictions.models import Eviction  # noqa: E402
from console.inventory.models import Gpu, Node, Pool  # noqa: E402
from console.metrics.fleet.rendering import render_fleet  # noqa: E402
from console.scheduling.models import Placement  # noqa: E402
from console.telemetry import fleet, layout, live_store  # noqa: E402
from console.telemetry.latest import COLUMN, Grid  # noqa: E402
from console.workloads.models import (  # noqa: E402
    OfflineJob,
    OnlineInstance,
    OnlineService,
    Team,
)

GIB: Final = 1 << 30
CARD_BYTES: Final = 80 * GIB
GPUS_A_NODE: Final = 8
POOL_GPUS: Final = 2_000
SERVICE_GPUS: Final = 50
FOOTPRINT: Final = {"sm_percent": 30.0, "gpu_util_percent": 60.0, "memory_bytes": 20 * GIB}
NOW: Final = timezone.now()


def main() -> None:
    call_command("migrate", verbosity=0)
    seed(int(sys.argv[1]))
    fleet.sample(NOW - timedelta(seconds=1))
    live_store.publish("a-web-process", heard())
    with CaptureQueriesContext(connection) as queries:
        began, began_cpu = time.perf_counter(), time.process_time()
        render_fleet(timezone.now)
        took, took_cpu = time.perf_counter() - began, time.process_time() - began_cpu
        token = {"authorization": f"Bearer {settings.METRICS_TOKEN}", "accept-encoding": "gzip"}
        assert Client(headers=token).get("/metrics/fleet", headers={"host": "127.0.0.1"}).content
    print(json.dumps({"render_s": took, "render_cpu_s": took_cpu, "queries": len(queries)}))


def seed(gpus: int) -> None:
    """A job beside the service of every other GPU, and an eviction in the past of every fourth."""
    team, _ = Team.objects.get_or_create(name="bench")
    there = Gpu.objects.count()
    nodes = _nodes(there // GPUS_A_NODE, gpus // GPUS_A_NODE)
    cards = Gpu.objects.bulk_create(
        [_card(node, slot) for node in nodes for slot in range(GPUS_A_NODE)], batch_size=2_000
    )
    _services(cards, team)
    _jobs(cards[::2], team)


def _nodes(first: int, end: int) -> list[Node]:
    pools = [_pool(number * GPUS_A_NODE // POOL_GPUS) for number in range(first, end)]
    return Node.objects.bulk_create(
        [
            Node(
                name=f"node-{number:04d}", pool=pool, state=Node.State.CONNECTED, state_since=NOW,
                agent_version="0.1.0", last_seen_at=NOW, observed_at=NOW, observed_generation=1,
            )
            for number, pool in enumerate(pools, first)
        ],
        batch_size=1_000,
    )  # fmt: skip


def _pool(number: int) -> Pool:
    name = f"pool-{number}"
    return Pool.objects.get_or_create(name=name, defaults={"sharing_mode": SharingMode.ENFORCE})[0]


def _card(node: Node, slot: int) -> Gpu:
    return Gpu(
        node=node, index=slot, uuid=f"GPU-5d1f9a3e-0000-4000-8000-{node.pk:08d}{slot:04d}",
        model="NVIDIA A100-SXM4-80GB", memory_bytes=CARD_BYTES, driver="570.124.06",
        power_limit_w=400, sharing_mode=SharingMode.ENFORCE, state=GpuState.HEALTHY,
        state_since=NOW,
    )  # fmt: skip


def _services(cards: list[Gpu], team: Team) -> None:
    for start in range(0, len(cards), SERVICE_GPUS):
        mine = cards[start : start + SERVICE_GPUS]
        service = OnlineService.objects.create(
            name=f"service-{mine[0].pk}", team=team, pool=mine[0].node.pool, slo_p99_ms=50,
            **FOOTPRINT,
        )  # fmt: skip
        OnlineInstance.objects.bulk_create(
            [OnlineInstance(service=service, gpu=card) for card in mine]
        )


def _jobs(cards: list[Gpu], team: Team) -> None:
    jobs = OfflineJob.objects.bulk_create(
        [
            OfflineJob(
                name=f"job-{card.pk}", team=team, state=OfflineJob.State.PLACED, state_since=NOW,
                submitted_at=NOW, work_s=3_600, **FOOTPRINT,
            )
            for card in cards
        ],
        batch_size=1_000,
    )  # fmt: skip
    placements = Placement.objects.bulk_create(
        [
            Placement(
                job=job, gpu=card, state=PlacementState.RUNNING, state_since=NOW, created_at=NOW,
                sm_share_percent=30, memory_quota_bytes=30 * GIB, observed_throughput=0.5,
            )
            for job, card in zip(jobs, cards, strict=True)
        ],
        batch_size=1_000,
    )  # fmt: skip
    Eviction.objects.bulk_create(
        [
            Eviction(
                placement=placement, gpu_id=placement.gpu_id, origin=Origin.OVERLOAD,
                state=Eviction.State.COMPLETED, state_since=NOW, proposed_at=NOW, why="overload",
            )
            for placement in placements[::2]
        ],
        batch_size=1_000,
    )  # fmt: skip


def heard() -> Grid:
    """Every GPU was just heard of; each signal of each has a value of its own."""
    grid = Grid(layout.load().facts)
    random = np.random.default_rng(7)
    grid.at[:], grid.state[:], grid.local[:] = time.time(), 1, True
    grid.values[:] = random.uniform(0, 100, grid.values.shape)
    for name in ("memory", "online_memory_bytes", "offline_memory_bytes"):
        grid.values[:, COLUMN[name]] *= GIB * 0.8
    grid.values[:, COLUMN["pcie_rx"]] *= 1e8
    return grid


if __name__ == "__main__":
    main()
