"""The agents' tests share one small cast: a node with two GPUs, a console, a job."""

from __future__ import annotations

from typing import Any

from agents.wire.messages import DesiredPlacement, Profile

PLACEMENT_ID = "01920000-0000-7000-8000-000000000001"

PROFILE = Profile(
    name="bert",
    sm_percent=60,
    gpu_util_percent=90,
    memory_bytes=8 << 30,
    memory_bandwidth_percent=30,
    work_s=3_600,
)


def placement(**changes: Any) -> DesiredPlacement:
    fields: dict[str, Any] = {
        "placement_id": PLACEMENT_ID,
        "job_id": "7",
        "job_name": "bert-7",
        "gpu_index": 0,
        "sm_share_percent": 40.0,
        "memory_quota_bytes": 16 << 30,
        "profile": PROFILE,
    }
    return DesiredPlacement(**(fields | changes))
