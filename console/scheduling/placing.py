"""Turn what a round decided into placements. Called in the round's transaction."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from agents.wire.ids import uuid7
from agents.wire.names import GpuState, PlacementState, SharingMode
from console.inventory.models import Gpu, Node, Pool
from console.scheduling import jobs, lifecycle
from console.scheduling.models import Placement, Round
from console.scheduling.plan import Placing
from console.workloads.holds import not_held
from console.workloads.models import OfflineJob


def place(
    round: Round, placings: Sequence[Placing], now: datetime
) -> tuple[list[Placement], list[Placing]]:
    """The placements made, and the pairs that the world has overtaken since it was read.

    GPUs and jobs are locked and looked at again; the constraints on `Placement` decide the rest.
    """
    open_gpus = still_open([one.gpu_id for one in placings])
    waiting = _still_waiting([one.job_id for one in placings], now)
    wanted = [
        _placement(round, one, waiting[one.job_id], now)
        for one in placings
        if one.gpu_id in open_gpus and one.job_id in waiting
    ]
    Placement.objects.bulk_create(wanted, batch_size=500, ignore_conflicts=True)
    made = written(wanted)
    placed = {one.job_id for one in made}
    jobs.place(placed, now)
    return made, [one for one in placings if one.job_id not in placed]


def still_open(gpu_ids: Sequence[int]) -> set[int]:
    """Those that may still take work. Whoever stops sharing waits for us, or we see it."""
    gpus = Gpu.objects.select_for_update(of=("self",)).filter(
        pk__in=gpu_ids,
        retired_at=None,
        disabled=False,
        conflict=False,
        unshareable_fact="",
        never_share=False,
        state=GpuState.HEALTHY,
        sharing_mode=SharingMode.ENFORCE,
        node__source=Node.Source.AGENT,
        node__cordoned=False,
        node__draining=False,
        node__never_share=False,
    )
    rows = list(gpus.order_by("pk").values_list("pk", "node__pool_id"))
    pools = Pool.objects.select_for_update().filter(pk__in={pool for _, pool in rows})
    sharing = set(
        pools.filter(sharing_mode=SharingMode.ENFORCE).order_by("pk").values_list("pk", flat=True)
    )
    return {gpu for gpu, pool in rows if pool in sharing}


def _still_waiting(job_ids: Sequence[UUID], now: datetime) -> dict[UUID, OfflineJob]:
    rows = OfflineJob.objects.select_for_update().filter(
        not_held(now), pk__in=job_ids, state=lifecycle.QUEUED
    )
    return {job.pk: job for job in rows.order_by("pk")}


def _placement(round: Round, placing: Placing, job: OfflineJob, now: datetime) -> Placement:
    return Placement(
        id=uuid7(),
        job=job,
        gpu_id=placing.gpu_id,
        round=round,
        state=PlacementState.DESIRED,
        state_since=now,
        created_at=now,
        sm_share_percent=placing.share_percent,
        memory_quota_bytes=placing.quota_bytes,
        predicted_throughput=placing.throughput,
        resume_work_s=job.saved_work_s,
        work_done_s=job.saved_work_s,
    )


def written(wanted: Sequence[Placement]) -> list[Placement]:
    ids = [one.pk for one in wanted]
    written = set(Placement.objects.filter(pk__in=ids).values_list("pk", flat=True))
    return [one for one in wanted if one.pk in written]
