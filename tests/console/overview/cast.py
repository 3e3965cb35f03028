"""A fleet with a past: samples before and after sharing went on."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from console.inventory.models import Pool, SharingChange
from console.overview.history import PoolSample
from console.telemetry.models import FleetSample
from tests.console.inventory.cast import NOW, a_pool


def a_sample(seconds: float = 0, pool: int = 1, **fields) -> PoolSample:
    values: dict[str, Any] = {
        "at": NOW + timedelta(seconds=seconds),
        "pool_id": pool,
        "reporting": 10.0,
        "sm_activity_percent": 40.0,
        "gpu_util_percent": 70.0,
        "memory_percent": 50.0,
        "online_p99_slo_ratio": 0.8,
        "online_p99_slo_ratio_worst": 0.9,
        "equivalent_gpu_s_total": 0.0,
        "lost_work_s_total": 0.0,
        "restart_s_total": 0.0,
    }
    return PoolSample(**values | fields)


def a_fleet_sample(at: datetime, pool: Pool | None = None, **fields) -> FleetSample:
    values: dict[str, Any] = {
        "gpus": 8,
        "reporting": 8,
        "sm_activity_percent": 34.0,
        "online_p99_slo_ratio": 0.7,
    }
    return FleetSample.objects.create(at=at, pool=pool or a_pool(), **values | fields)


def sharing_went_on(at: datetime, pool: Pool, **baseline) -> SharingChange:
    return SharingChange.objects.create(
        at=at, pool=pool, before="observe", after="enforce", actor="user:ortega", baseline=baseline
    )
