"""Facts of GPUs and jobs for decisions that touch no database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from agents.wire.names import GpuState, SharingMode
from console.scheduling.snapshot import (
    GpuFacts,
    JobFacts,
    Rules,
    RunningFacts,
    Snapshot,
    Use,
)

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)
GIB = 1 << 30
RULES = Rules(
    sm_reserve_percent=10,
    memory_reserve_percent=5,
    min_headroom_percent=5,
    move_min_gain=0.1,
    restart_s=35,
)


def a_use(sm: float = 50, util: float = 50, bandwidth: float = 20, gib: float = 8) -> Use:
    return Use(sm, util, bandwidth, gib * GIB)


def a_gpu(number: int = 1, online: Use | None = None, **values: Any) -> GpuFacts:
    online = online or a_use(20, 20, 10, 10)
    facts: dict[str, Any] = {
        "id": number,
        "name": f"node-01 / GPU {number}",
        "model": "A100",
        "pool": "web",
        "memory_bytes": 40 * GIB,
        "mode": SharingMode.ENFORCE,
        "state": GpuState.HEALTHY,
        "imported": False,
        "node_connected": True,
        "live_age_s": 0.5,
        "online": online,
        "online_peak_percent": online.sm_percent,
        "rules": RULES,
    }
    return GpuFacts(**facts | values)


def a_job(number: int = 1, use: Use | None = None, **values: Any) -> JobFacts:
    facts: dict[str, Any] = {
        "id": UUID(int=number),
        "name": f"job-{number}",
        "submitted_at": NOW + timedelta(seconds=number),
        "weight": 1.0,
        "use": use or a_use(),
    }
    return JobFacts(**facts | values)


def a_guest(job: JobFacts, gpu: GpuFacts, **values: Any) -> RunningFacts:
    facts: dict[str, Any] = {
        "placement_id": UUID(int=1_000 + job.id.int),
        "job": job,
        "gpu_id": gpu.id,
        "share_percent": 70.0,
        "fixed": "",
        "left_work_s": 36_000.0,
        "unsaved_work_s": 0.0,
    }
    return RunningFacts(**facts | values)


def a_snapshot(gpus, jobs=(), **values: Any) -> Snapshot:
    facts: dict[str, Any] = {"at": NOW, "mode": SharingMode.ENFORCE}
    return Snapshot(gpus=tuple(gpus), jobs=tuple(jobs), **facts | values)
