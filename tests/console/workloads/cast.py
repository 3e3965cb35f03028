"""Jobs, services and placements for tests."""

from __future__ import annotations

from console.inventory.models import Gpu
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService, Team
from tests.console.inventory.cast import GIB, NOW

PROFILE = {"sm_percent": 50, "gpu_util_percent": 80, "memory_bytes": 8 * GIB}


def a_team(name: str = "research") -> Team:
    return Team.objects.get_or_create(name=name)[0]


def a_job(name: str = "resnet-31", **fields) -> OfflineJob:
    defaults = {"team": a_team(), "state_since": NOW, "submitted_at": NOW, "work_s": 7_200}
    return OfflineJob.objects.create(name=name, **{**defaults, **PROFILE, **fields})


def placed(gpu: Gpu, job: OfflineJob | None = None, **fields) -> Placement:
    """A running placement, of `job` or of a new one."""
    job = job or a_job(f"job-on-{gpu.pk}")
    OfflineJob.objects.filter(pk=job.pk).update(state="PLACED", attempts=1)
    job.refresh_from_db()
    defaults = {
        "state": "RUNNING",
        "state_since": NOW,
        "created_at": NOW,
        "started_at": NOW,
        "sm_share_percent": 40,
        "memory_quota_bytes": 12 * GIB,
        "unsaved_work_s": 840,
    }
    return Placement.objects.create(job=job, gpu=gpu, **{**defaults, **fields})


def a_service(gpu: Gpu, name: str = "search-rank", **fields) -> OnlineService:
    """A service with one instance on `gpu`."""
    service = OnlineService.objects.create(
        name=name,
        team=a_team("search"),
        pool=gpu.node.pool,
        **{"slo_p99_ms": 40, **PROFILE, **fields},
    )
    OnlineInstance.objects.create(service=service, gpu=gpu)
    return service
