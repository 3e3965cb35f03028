"""Read what a round looks at: the database, and the live grid, as of one moment."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache, lru_cache
from math import ceil, floor
from typing import Final, NamedTuple
from uuid import UUID

from django.conf import settings
from django.db.models import Q, QuerySet

from agents.wire.names import SHARING_MODES, Checkpoint, GpuState, Origin, SharingMode
from console.evictions.models import Eviction
from console.inventory import modes
from console.inventory.models import Gpu, Node, Pool
from console.policies import services as policies
from console.policies.rules import PolicyBody
from console.scheduling import avoid, budgets, hosts, job_facts, lifecycle, peaks, stays
from console.scheduling.models import Placement
from console.scheduling.snapshot import (
    LIVE_AGE_S,
    STEP_PERCENT,
    GpuFacts,
    JobFacts,
    Rules,
    RunningFacts,
    Snapshot,
    Use,
)
from console.telemetry.latest import LiveGpu
from console.workloads import service_profiles
from console.workloads.holds import not_held
from console.workloads.models import Footprint, OfflineJob, OnlineInstance, OnlineService

# A moved job that is stopped should be back in the queue within this time. Our choice.
HOLD_S: Final = 120.0
# A stop takes about half of its grace, then the job has to start again. Our choice.
START_S: Final = 5.0

Live = Mapping[int, LiveGpu]


def read(mode: SharingMode, live: Live, now: datetime) -> Snapshot:
    """The GPUs whose sharing mode is `mode`, or whose pool's is; no GPUs: nothing to decide.

    The number of queries does not grow with the fleet.
    """
    gpus = _gpus(_in_scope(mode))
    acts = mode is SharingMode.ENFORCE
    running = _placements({gpu.pk for gpu in gpus}) if acts else {}
    held = _held(now) if acts else {}
    bodies = _bodies(gpus)
    counted, known = _counted(gpus), budgets.restarts(now) if acts else {}
    return Snapshot(
        at=now,
        mode=mode,
        gpus=_gpu_facts(gpus, live, running, held, bodies, now),
        jobs=tuple(job_facts.read(_waiting(now)).values()),
        running=_running(running, {gpu.pk: bodies[gpu.node.pool] for gpu in gpus}, now),
        avoid=avoid.pairs(now) if acts else frozenset(),
        restarts_left=budgets.restarts_left(bodies, counted, known) if acts else {},
        moves_open=budgets.moves_open(bodies, counted, known) if acts else frozenset(),
        team_room=budgets.team_room(),
        aging_per_hour=max((body.aging_per_hour for body in bodies.values()), default=0.0),
    )


def running(live: Live, now: datetime) -> Snapshot:
    """What runs, and its GPUs alone: for those whose limits follow the load between rounds."""
    taken = Placement.objects.filter(state__in=lifecycle.LIVE).values("gpu")
    gpus = _gpus(Gpu.objects.filter(pk__in=taken, retired_at=None))
    placements = _placements({gpu.pk for gpu in gpus})
    bodies = _bodies(gpus)
    return Snapshot(
        at=now,
        mode=SharingMode.ENFORCE,
        gpus=_gpu_facts(gpus, live, placements, {}, bodies, now),
        jobs=(),
        running=_running(placements, {gpu.pk: bodies[gpu.node.pool] for gpu in gpus}, now),
        restarts_left=budgets.restarts_left(bodies, _counted(gpus), budgets.restarts(now)),
    )


def has_gpus(mode: SharingMode) -> bool:
    return _in_scope(mode).exists()


# Of a GPU; the others take as long to read again.
_COLUMNS: Final = (
    "node_id", "index", "model", "memory_bytes", "source", "sharing_mode", "holdback",
    "never_share", "labels", "unshareable_fact", "conflict", "state", "disabled",
)  # fmt: skip


def _gpus(scope: QuerySet[Gpu]) -> list[Gpu]:
    """With node, pool and policy, each read once however many GPUs it has. Nodes are asked for by
    their ids: how a subquery is planned hangs on what the database last counted, and right after
    the import of a fleet that made it take minutes."""
    pools = {pool.pk: pool for pool in Pool.objects.select_related("policy__current")}
    found = list(scope.only(*_COLUMNS).order_by("pk"))
    nodes = Node.objects.in_bulk({gpu.node_id for gpu in found})
    for node in nodes.values():
        node.pool = pools[node.pool_id]
    found = [gpu for gpu in found if gpu.node_id in nodes]
    for gpu in found:
        gpu.node = nodes[gpu.node_id]
    return found


def _in_scope(mode: SharingMode) -> QuerySet[Gpu]:
    at_least = SHARING_MODES[SHARING_MODES.index(mode) :]
    in_scope = Q(node__pool__sharing_mode=mode) | Q(
        sharing_mode=mode, node__pool__sharing_mode__in=at_least
    )
    return Gpu.objects.filter(in_scope, retired_at=None)


def _bodies(gpus: Iterable[Gpu]) -> dict[Pool, PolicyBody]:
    by_policy: dict[int | None, PolicyBody] = {}
    pools = {gpu.node.pool for gpu in gpus}
    for pool in pools:
        if pool.policy_id not in by_policy:
            by_policy[pool.policy_id] = policies.rules_for(pool)
    return {pool: by_policy[pool.policy_id] for pool in pools}


def _counted(gpus: Iterable[Gpu]) -> Counter[int]:
    return Counter(gpu.node.pool_id for gpu in gpus)


def _waiting(now: datetime) -> QuerySet[OfflineJob]:
    """Without those that are held for their faults: no round looks at them."""
    queued = OfflineJob.objects.filter(not_held(now), state=OfflineJob.State.QUEUED)
    return queued.order_by("submitted_at", "pk")


# --- GPUs ---------------------------------------------------------------------------------


def _gpu_facts(
    gpus: list[Gpu],
    live: Live,
    running: Mapping[Held, JobFacts],
    held: Mapping[int, UUID],
    bodies: Mapping[Pool, PolicyBody],
    now: datetime,
) -> tuple[GpuFacts, ...]:
    guests = {placement.gpu_id: job for placement, job in running.items()}
    tenants = tenants_of(gpus, now)
    uses = {
        gpu.pk: online_use(tenants[gpu.pk].use, live.get(gpu.pk), gpu.pk in guests) for gpu in gpus
    }
    peak = recent_peaks(uses, live)
    rules = {pool.pk: _rules(body) for pool, body in bodies.items()}
    left = hosts.left(gpus, guests)
    return tuple(
        _gpu(
            gpu,
            live.get(gpu.pk),
            uses[gpu.pk],
            peak[gpu.pk],
            rules[gpu.node.pool_id],
            tenants[gpu.pk],
            left[gpu.pk],
            held.get(gpu.pk),
        )
        for gpu in gpus
    )


def _gpu(
    gpu: Gpu,
    sample: LiveGpu | None,
    online: Use,
    peak_percent: float,
    rules: Rules,
    tenants: Tenants,
    host: hosts.Host,
    held_for: UUID | None,
) -> GpuFacts:
    node = gpu.node
    return _same_gpu(
        id=gpu.pk,
        name=str(gpu),
        model=gpu.model,
        pool=node.pool.name,
        memory_bytes=gpu.memory_bytes,
        mode=modes.lower(node.pool.sharing_mode, gpu.sharing_mode),
        state=GpuState(gpu.state),
        imported=node.source == Node.Source.IMPORTED,
        node_connected=node.state == Node.State.CONNECTED,
        live_age_s=max(LIVE_AGE_S, sample.age_s) if sample else None,
        online=_in_steps(online),
        online_peak_percent=_step(peak_percent),
        rules=rules,
        headroom_percent=_headroom(sample, rules.min_headroom_percent),
        holdback=gpu.holdback,
        conflict=gpu.conflict,
        disabled=gpu.disabled,
        cordoned=node.cordoned,
        draining=node.draining,
        unshareable_fact=gpu.unshareable_fact,
        held_for=held_for,
        tier=tenants.tier,
        service=tenants.service,
        never_share=tenants.never_share or gpu.never_share or node.never_share,
        simulated=gpu.is_simulated,
        labels=gpu.label_words,
        cpu_free=host.cpu_cores,
        host_memory_free_bytes=host.memory_bytes,
    )


# More GPUs than a round looks at; of one that says what it said in the round before the object of
# that round is used again, and nobody reads it a second time.
_GPUS_KEPT: Final = 65_536
_same_gpu: Final = lru_cache(_GPUS_KEPT)(GpuFacts)
_same_use: Final = lru_cache(_GPUS_KEPT)(Use)


def _in_steps(use: Use) -> Use:
    """Noise within a step changes no verdict, so it changes no facts."""
    return _same_use(
        _step(use.sm_percent),
        _step(use.util_percent),
        _step(use.bandwidth_percent),
        use.memory_bytes,
        None if use.occupancy_percent is None else _step(use.occupancy_percent),
        use.step_s,
        use.gpu_model,
    )


def _step(percent: float) -> float:
    return STEP_PERCENT * ceil(percent / STEP_PERCENT)


def _headroom(sample: LiveGpu | None, least: float) -> float | None:
    """Too little is told as it is, enough in whole steps."""
    told = sample.headroom_percent if sample else None
    if told is None or told < least:
        return told
    return max(least, STEP_PERCENT * floor(told / STEP_PERCENT))


def rules_of(pool: Pool) -> Rules:
    return _rules(policies.rules_for(pool))


def _rules(body: PolicyBody) -> Rules:
    return Rules(
        sm_reserve_percent=body.sm_reserve_percent,
        memory_reserve_percent=body.memory_reserve_percent,
        min_headroom_percent=body.min_gpu_headroom_percent,
        move_min_gain=body.move_min_gain,
        restart_s=(body.grace_s / 2 + START_S) * settings.WORLD_CLOCK,
        most_slowdown=body.most_slowdown,
        proven_for_tier=body.proven_for_tier,
    )


class Tenants(NamedTuple):
    """The online side of one GPU: what it uses at its peak, its highest tier, its services."""

    use: Use
    tier: int | None = None
    service: str = ""
    never_share: bool = False


def profiles_of(gpus: Iterable[Gpu], now: datetime) -> Mapping[int, Use]:
    """By GPU id, what its online instances use together at their peak; nothing without any."""
    tenants = tenants_of(gpus, now)
    nothing = _sum([])
    return defaultdict(lambda: nothing, {pk: one.use for pk, one in tenants.items()})


def tenants_of(gpus: Iterable[Gpu], now: datetime) -> Mapping[int, Tenants]:
    """By GPU id; nobody where no instance runs. What was measured there is believed first."""
    model = {gpu.pk: gpu.model for gpu in gpus}
    known = {service.pk: service for service in OnlineService.objects.all()}
    pools = {gpu.node.pool_id for gpu in gpus}
    services: dict[int, tuple[int, ...]] = defaultdict(tuple)
    instances = OnlineInstance.objects.filter(gpu__node__pool__in=pools).order_by("pk")
    for gpu_id, service_id in instances.values_list("gpu", "service"):
        if service_id in known:
            services[gpu_id] += (service_id,)
    measured = service_profiles.measured(list(known), now)

    @cache  # replicas side by side with the same ones, on the same model, are alike
    def together(few: tuple[int, ...], model: str) -> Tenants:
        return _tenants([known[pk] for pk in few], model, measured)

    nobody = Tenants(_sum([]))
    return defaultdict(
        lambda: nobody, {pk: together(few, model.get(pk, "")) for pk, few in services.items()}
    )


def _tenants(
    services: Sequence[OnlineService], model: str, measured: Mapping[tuple[int, str], Footprint]
) -> Tenants:
    known = [measured.get((service.pk, model), service) for service in services]
    use = _sum(known)
    # A service may yet need as much as it was said to.
    most = max(use.memory_bytes, sum(service.memory_bytes for service in services))
    return Tenants(
        use=replace(use, memory_bytes=most),
        tier=min(service.tier for service in services),
        service=", ".join(sorted({service.name for service in services})),
        never_share=any(service.never_share for service in services),
    )


def _sum(footprints: Iterable[Footprint]) -> Use:
    """Together; occupancy only where all of them have it."""
    few = list(footprints)
    occupancies = [one.occupancy_percent for one in few if one.occupancy_percent is not None]
    return Use(
        sm_percent=min(100.0, sum(one.sm_percent for one in few)),
        util_percent=min(100.0, sum(one.gpu_util_percent for one in few)),
        bandwidth_percent=min(100.0, sum(one.memory_bandwidth_percent for one in few)),
        memory_bytes=sum(one.memory_bytes for one in few),
        occupancy_percent=(
            min(100.0, sum(occupancies)) if few and len(occupancies) == len(few) else None
        ),
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
    return replace(
        profile,
        sm_percent=sample.sm_online_percent,
        occupancy_percent=(
            None
            if profile.occupancy_percent is None
            else min(100.0, profile.occupancy_percent * load)
        ),
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


# --- what runs ----------------------------------------------------------------------------


class Held(NamedTuple):
    """A live placement, with what of its job is no `JobFacts`; by the names of the columns."""

    pk: UUID
    gpu_id: int
    job_id: UUID
    state: str
    started_at: datetime | None
    sm_share_percent: float
    effective_sm_share_percent: float | None
    work_done_s: float
    unsaved_work_s: float | None
    job__state: str
    job__checkpoint: str
    job__work_s: float
    job__saved_work_s: float


def _placements(here: Container[int]) -> dict[Held, JobFacts]:
    """Those on the GPUs `here`, with their jobs. Nothing is joined to find them: what is live is
    about what a round looks at."""
    live = Placement.objects.filter(state__in=lifecycle.LIVE)
    held = [one for one in map(Held._make, live.values_list(*Held._fields)) if one.gpu_id in here]
    jobs = job_facts.read(OfflineJob.objects.filter(placements__state__in=lifecycle.LIVE))
    if ended := [one.job_id for one in held if one.job_id not in jobs]:  # between the two queries
        jobs |= job_facts.read(OfflineJob.objects.filter(pk__in=ended))
    return {one: jobs[one.job_id] for one in held}


def _running(
    placements: Mapping[Held, JobFacts], body_of: Mapping[int, PolicyBody], now: datetime
) -> tuple[RunningFacts, ...]:
    """`body_of` by GPU id."""
    if not placements:
        return ()
    reasons, taken_off = stays.reasons(now), budgets.interruptions(now)
    found = []
    for one, job in placements.items():
        body = body_of[one.gpu_id]
        left = max(0, body.interruptions_per_day - taken_off.get(one.job_id, 0))
        why = stays.why_fixed(one, body, left, reasons.get(one.pk, ""), now)
        found.append(_running_facts(one, job, why, left))
    return tuple(found)


def _running_facts(
    placement: Held, job: JobFacts, fixed: str, interruptions_left: int
) -> RunningFacts:
    saves = placement.job__checkpoint == Checkpoint.ON_SIGTERM
    share = placement.effective_sm_share_percent
    done_s = max(placement.work_done_s, placement.job__saved_work_s)
    return RunningFacts(
        placement_id=placement.pk,
        job=job,
        gpu_id=placement.gpu_id,
        share_percent=placement.sm_share_percent if share is None else share,
        fixed=fixed,
        left_work_s=max(0.0, placement.job__work_s - done_s),
        unsaved_work_s=0.0 if saves else placement.unsaved_work_s or 0.0,
        since=placement.started_at,
        interruptions_left=interruptions_left,
    )


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
