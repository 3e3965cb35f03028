"""Read what a round looks at: the database, and the live grid, as of one moment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet

from agents.wire.names import (
    SHARING_MODES,
    Checkpoint,
    GpuState,
    Origin,
    PlacementState,
    SharingMode,
)
from console.evictions.models import Eviction, Silence
from console.inventory import modes
from console.inventory.models import Gpu, Node, Pool
from console.policies import services as policies
from console.scheduling import lifecycle, peaks
from console.scheduling.models import Placement
from console.scheduling.snapshot import (
    GpuFacts,
    JobFacts,
    Rules,
    RunningFacts,
    Snapshot,
    Use,
)
from console.telemetry.latest import LiveGpu
from console.workloads.holds import not_held
from console.workloads.models import Footprint, OfflineJob, OnlineInstance

# One step of priority is worth this much more; beyond ten steps nothing changes. Our choice.
PRIORITY_STEP: Final = 1.25
PRIORITY_MOST: Final = 10
# A job that was taken off a GPU does not come back to it for this long. Our choice.
AVOID_S: Final = 600.0
# A job that just started is not moved: its warm-up would be for nothing. Our choice.
RESIDENCE_S: Final = 30.0
# A moved job that is stopped should be back in the queue within this time. Our choice.
HOLD_S: Final = 120.0
# Each move that waits keeps a GPU free, so only a few may wait at once. Our choice.
OPEN_MOVES: Final = 2
# Nobody decided on the last proposal: this job is not proposed again for so long. Our choice.
UNDECIDED_S: Final = 600.0
# A stop takes about half of its grace, then the job has to start again. Our choice.
START_S: Final = 5.0

Live = Mapping[int, LiveGpu]


def read(mode: SharingMode, live: Live, now: datetime) -> Snapshot:
    """The GPUs whose sharing mode is `mode`, or whose pool's is; no GPUs: nothing to decide."""
    gpus = list(_gpus(mode))
    acts = mode is SharingMode.ENFORCE
    running = list(_placements(gpus)) if acts else []
    held = _held(now) if acts else {}
    return Snapshot(
        at=now,
        mode=mode,
        gpus=_gpu_facts(gpus, live, {one.gpu_id for one in running}, held),
        jobs=tuple(_job(job) for job in _waiting(now)),
        running=_running(running, now),
        avoid=_avoid(now) if acts else frozenset(),
        moves_allowed=max(0, OPEN_MOVES - len(held)) if acts else 0,
    )


def _gpus(mode: SharingMode) -> QuerySet[Gpu]:
    at_least = SHARING_MODES[SHARING_MODES.index(mode) :]
    in_scope = Q(node__pool__sharing_mode=mode) | Q(
        sharing_mode=mode, node__pool__sharing_mode__in=at_least
    )
    return Gpu.objects.filter(in_scope, retired_at=None).select_related("node__pool").order_by("pk")


def _waiting(now: datetime) -> QuerySet[OfflineJob]:
    """Without those that are held for their faults: no round looks at them."""
    queued = OfflineJob.objects.filter(not_held(now), state=OfflineJob.State.QUEUED)
    return queued.order_by("submitted_at", "pk")


def _placements(gpus: Iterable[Gpu]) -> QuerySet[Placement]:
    pools = {gpu.node.pool_id for gpu in gpus}
    return Placement.objects.filter(
        state__in=lifecycle.LIVE, gpu__node__pool__in=pools
    ).select_related("job")


# --- GPUs ---------------------------------------------------------------------------------


def _gpu_facts(
    gpus: list[Gpu], live: Live, taken: set[int], held: Mapping[int, UUID]
) -> tuple[GpuFacts, ...]:
    rules = {pool.pk: rules_of(pool) for pool in {gpu.node.pool for gpu in gpus}}
    profiles = profiles_of(gpus)
    uses = {gpu.pk: online_use(profiles[gpu.pk], live.get(gpu.pk), gpu.pk in taken) for gpu in gpus}
    peak = recent_peaks(uses, live)
    return tuple(
        _gpu(gpu, live.get(gpu.pk), uses[gpu.pk], peak[gpu.pk], rules[gpu.node.pool_id], held)
        for gpu in gpus
    )


def _gpu(
    gpu: Gpu,
    sample: LiveGpu | None,
    online: Use,
    peak_percent: float,
    rules: Rules,
    held: Mapping[int, UUID],
) -> GpuFacts:
    node = gpu.node
    return GpuFacts(
        id=gpu.pk,
        name=str(gpu),
        model=gpu.model,
        pool=node.pool.name,
        memory_bytes=gpu.memory_bytes,
        mode=modes.lower(node.pool.sharing_mode, gpu.sharing_mode),
        state=GpuState(gpu.state),
        imported=node.source == Node.Source.IMPORTED,
        node_connected=node.state == Node.State.CONNECTED,
        live_age_s=sample.age_s if sample else None,
        online=online,
        online_peak_percent=peak_percent,
        rules=rules,
        headroom_percent=sample.headroom_percent if sample else None,
        holdback=gpu.holdback,
        conflict=gpu.conflict,
        disabled=gpu.disabled,
        cordoned=node.cordoned,
        draining=node.draining,
        unshareable_fact=gpu.unshareable_fact,
        held_for=held.get(gpu.pk),
    )


def rules_of(pool: Pool) -> Rules:
    body = policies.rules_for(pool)
    return Rules(
        sm_reserve_percent=body.sm_reserve_percent,
        memory_reserve_percent=body.memory_reserve_percent,
        min_headroom_percent=body.min_gpu_headroom_percent,
        move_min_gain=body.move_min_gain,
        restart_s=(body.grace_s / 2 + START_S) * settings.WORLD_CLOCK,
    )


def profiles_of(gpus: Iterable[Gpu]) -> Mapping[int, Use]:
    """By GPU id, what its online instances use together at their peak; nothing without any."""
    footprints: dict[int, list[Footprint]] = defaultdict(list)
    pools = {gpu.node.pool_id for gpu in gpus}
    instances = OnlineInstance.objects.filter(gpu__node__pool__in=pools)
    for instance in instances.select_related("service"):
        footprints[instance.gpu_id].append(instance.service)
    return defaultdict(lambda: _sum([]), {pk: _sum(few) for pk, few in footprints.items()})


def _sum(footprints: Iterable[Footprint]) -> Use:
    few = list(footprints)
    return Use(
        sm_percent=min(100.0, sum(one.sm_percent for one in few)),
        util_percent=min(100.0, sum(one.gpu_util_percent for one in few)),
        bandwidth_percent=min(100.0, sum(one.memory_bandwidth_percent for one in few)),
        memory_bytes=sum(one.memory_bytes for one in few),
    )


def online_use(profile: Use, sample: LiveGpu | None, shared: bool) -> Use:
    """What online uses now. Where a guest runs, or a signal is missing, the profile is scaled by
    the online SM activity, the one signal that is told by side; memory counts at its peak.
    """
    if sample is None or sample.sm_online_percent is None:
        return profile
    load = sample.sm_online_percent / profile.sm_percent if profile.sm_percent else 1.0
    util = None if shared else sample.gpu_util_percent
    bandwidth = None if shared else sample.memory_bandwidth_percent
    return Use(
        sm_percent=sample.sm_online_percent,
        util_percent=min(100.0, profile.util_percent * load) if util is None else util,
        bandwidth_percent=(
            min(100.0, profile.bandwidth_percent * load) if bandwidth is None else bandwidth
        ),
        memory_bytes=max(profile.memory_bytes, sample.online_memory_bytes or 0),
    )


def recent_peaks(uses: Mapping[int, Use], live: Live) -> dict[int, float]:
    """By GPU id; measured GPUs have a memory, what is assumed is its own peak."""
    assumed = {pk: use.sm_percent for pk, use in uses.items()}
    measured = {pk: percent for pk, percent in assumed.items() if pk in live}
    if not measured:
        return assumed
    at = max(sample.at for sample in live.values())
    return assumed | peaks.expected(measured, at)


# --- jobs ---------------------------------------------------------------------------------


def _job(job: OfflineJob) -> JobFacts:
    return JobFacts(
        id=job.pk,
        name=job.name,
        submitted_at=job.submitted_at,
        weight=weight_of(job.priority),
        use=_sum([job]),
        pools=tuple(sorted(job.pools)),
        gpu_models=tuple(sorted(job.gpu_models)),
        not_before=job.not_before,
    )


def weight_of(priority: int) -> float:
    """What a unit of throughput is worth, from the job's priority."""
    steps = max(-PRIORITY_MOST, min(PRIORITY_MOST, priority))
    return float(PRIORITY_STEP**steps)


def _running(placements: Iterable[Placement], now: datetime) -> tuple[RunningFacts, ...]:
    few = list(placements)
    reasons = _reasons_to_stay(now)
    return tuple(_running_facts(one, _why_fixed(one, reasons, now)) for one in few)


def _running_facts(placement: Placement, fixed: str) -> RunningFacts:
    job = placement.job
    saves = job.checkpoint == Checkpoint.ON_SIGTERM
    share = placement.effective_sm_share_percent
    return RunningFacts(
        placement_id=placement.pk,
        job=_job(job),
        gpu_id=placement.gpu_id,
        share_percent=placement.sm_share_percent if share is None else share,
        fixed=fixed,
        left_work_s=max(0.0, job.work_s - max(placement.work_done_s, job.saved_work_s)),
        unsaved_work_s=0.0 if saves else placement.unsaved_work_s or 0.0,
    )


def _why_fixed(placement: Placement, reasons: Mapping[UUID, str], now: datetime) -> str:
    if placement.state != PlacementState.RUNNING or placement.started_at is None:
        return f"it is {placement.get_state_display().lower()}"
    if (now - placement.started_at).total_seconds() < RESIDENCE_S:
        return "it has only just started"
    return reasons.get(placement.pk, "")


def _reasons_to_stay(now: datetime) -> dict[UUID, str]:
    """By placement, what people and evictions say against a move; the strongest reason last."""
    undecided = Eviction.objects.filter(
        origin=Origin.MOVE,
        state=Eviction.State.EXPIRED,
        ended_at__gt=now - timedelta(seconds=UNDECIDED_S),
    )
    silenced = Silence.objects.filter(origin=Origin.MOVE, until__gt=now)
    open_ = Eviction.objects.filter(state__in=Eviction.OPEN)
    found: dict[UUID, str] = {}
    for rows, reason in (
        (undecided, "nobody decided on its last move"),
        (silenced, "a person chose to keep it running"),
        (open_, "an eviction of it is open"),
    ):
        found |= dict.fromkeys(rows.values_list("placement_id", flat=True), reason)
    return found


def _avoid(now: datetime) -> frozenset[tuple[UUID, int]]:
    """Jobs that wait, and the GPUs that they were taken off not long ago."""
    since = now - timedelta(seconds=AVOID_S)
    gone = Eviction.objects.filter(
        ended_at__gt=since,
        state=Eviction.State.COMPLETED,
        placement__job__state=OfflineJob.State.QUEUED,
    ).exclude(origin=Origin.DRAIN)
    return frozenset(gone.values_list("placement__job_id", "gpu_id"))


def _held(now: datetime) -> dict[int, UUID]:
    """GPUs kept free for a move: it is proposed or under way, or its job just came back."""
    since = now - timedelta(seconds=HOLD_S)
    back = Q(
        state=Eviction.State.COMPLETED,
        ended_at__gt=since,
        placement__job__state=OfflineJob.State.QUEUED,
    )
    moves = Eviction.objects.filter(
        Q(state__in=Eviction.OPEN) | back, origin=Origin.MOVE, to_gpu__isnull=False
    )
    return dict(moves.values_list("to_gpu_id", "placement__job_id"))
