"""What pages and the API read of services and jobs, in a fixed number of queries."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from uuid import UUID

from django.conf import settings
from django.db.models import Prefetch, Q, QuerySet

from agents.wire.names import Checkpoint, PlacementState
from console.accounts import access
from console.accounts.models import Role, User
from console.api import in_sight
from console.errors import Unavailable
from console.evictions import words
from console.evictions.models import Eviction
from console.faults import queries as faults
from console.faults.queries import Told
from console.policies import services as policies
from console.scheduling import next_start
from console.scheduling.coverage import Coverage
from console.scheduling.models import Placement
from console.telemetry import live_store
from console.telemetry.latest import LiveGpu
from console.workloads import letters, profile_words
from console.workloads.holds import not_held
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService
from console.workloads.wanted_pools import for_pools

log = logging.getLogger(__name__)


def jobs_in_sight(jobs: QuerySet[OfflineJob], user: User) -> QuerySet[OfflineJob]:
    """The jobs that `user` may see: their own, those that may come to one of their pools, and
    those that have been placed there.
    """
    if access.sees_all(user):
        return jobs
    pools = access.pools_for(user, Role.VIEWER)
    placed = Placement.objects.filter(gpu__node__pool__in=pools).values("job")
    may_come = for_pools(pools.values_list("name", flat=True))
    return jobs.filter(Q(owner=user) | Q(pk__in=placed) | may_come)


def jobs(user: User) -> QuerySet[OfflineJob]:
    """The jobs that `user` may see, each with `live`: its placement that is not over."""
    live = Placement.objects.exclude(state=PlacementState.ENDED).select_related("gpu__node")
    rows = jobs_in_sight(OfflineJob.objects.select_related("team", "owner"), user)
    return rows.prefetch_related(Prefetch("placements", live, to_attr="live"))


def positions(now: datetime) -> dict[UUID, int]:
    """The place of every queued job: by priority, then by the time it was submitted. A job that is
    held has none."""
    queued = OfflineJob.objects.filter(not_held(now), state=OfflineJob.State.QUEUED)
    ids = queued.order_by("-priority", "submitted_at", "pk").values_list("pk", flat=True)
    return {pk: place for place, pk in enumerate(ids, start=1)}


def live() -> Mapping[int, LiveGpu]:
    """The last samples by GPU; none while Redis is away."""
    try:
        return live_store.read()
    except Unavailable as error:
        log.warning("%s", error)
        return {}


@dataclass(frozen=True)
class Letter:
    """An eviction as its owner reads it."""

    eviction: Eviction
    subject: str
    sentences: Sequence[str]


class JobPage:
    """All that the page of one job shows; nothing is asked of the database twice."""

    def __init__(self, job: OfflineJob, now: datetime) -> None:
        self.job, self.now = job, now

    @cached_property
    def placements(self) -> list[Placement]:
        """The attempts, newest first."""
        rows = Placement.objects.filter(job=self.job).select_related(
            "gpu__node__pool__policy__current__policy", "round"
        )
        return list(rows.order_by("-created_at", "-pk"))

    @cached_property
    def live(self) -> Placement | None:
        return next((p for p in self.placements if p.state != PlacementState.ENDED), None)

    @property
    def attempts(self) -> list[tuple[Placement, float | None]]:
        """Each with how long it ran or runs, in seconds; None when it has not started."""
        return [(placement, self._ran_s(placement)) for placement in self.placements]

    def _ran_s(self, placement: Placement) -> float | None:
        if placement.started_at is None:
            return None
        return ((placement.ended_at or self.now) - placement.started_at).total_seconds()

    @cached_property
    def letters(self) -> list[Letter]:
        rows = Eviction.objects.filter(placement__job=self.job).select_related(
            "placement__job", "gpu__node", "to_gpu__node", "decided_by"
        )
        return [_letter(eviction) for eviction in rows.order_by("-proposed_at")]

    @cached_property
    def position(self) -> int | None:
        return positions(self.now).get(self.job.pk) if self.is_queued else None

    @property
    def origin(self) -> str:
        """Where its profile comes from, to stand before its age."""
        job = self.job
        return profile_words.origin(
            job.profile_source, job.state, job.profile_gpu_model, job.profile_why, job.source
        )

    @property
    def profile_note(self) -> str:
        return profile_words.note(self.job.profile_source, self.job.state)

    @property
    def is_pending(self) -> bool:
        """It waits for a free GPU to be measured on."""
        return self.job.state == OfflineJob.State.PENDING

    @property
    def is_measured(self) -> bool:
        """It is being measured now."""
        return self.job.state == OfflineJob.State.PROFILING

    @property
    def measured_within_s(self) -> float:
        """After so long without a free GPU it is queued by what is assumed of it."""
        return float(settings.PROFILE_WITHIN_S)

    @property
    def proven_within_s(self) -> float:
        return float(settings.BURN_IN_S)

    @property
    def is_queued(self) -> bool:
        return self.job.state == OfflineJob.State.QUEUED

    @property
    def is_held(self) -> bool:
        return self.is_open and self.job.is_held(self.now)

    @cached_property
    def faults(self) -> list[Told]:
        """Those that it caused, and those that hit it."""
        return faults.of_job(self.job)

    @property
    def last_caused(self) -> Told | None:
        """The newest fault that a process of it was the first of."""
        return next((told for told in self.faults if told.fault.job_id == self.job.pk), None)

    @property
    def coverage(self) -> Coverage | None:
        """Of the placement that is not over; None without one."""
        if self.live is None:
            return None
        body = policies.rules_for(self.live.gpu.node.pool)
        return Coverage(
            self.live.xcuda_processes, self.live.cuda_processes, body.allow_unlimited_jobs
        )

    @property
    def waits_for_restart(self) -> str:
        """What of its limits waits for the next start; empty: nothing does."""
        return next_start.sentence(self.live) if self.live else ""

    @property
    def is_open(self) -> bool:
        return self.job.state in OfflineJob.OPEN

    @property
    def done(self) -> float | None:
        """The part of the work that is done, 0 to 1; None when the node has not told."""
        if self.job.state == OfflineJob.State.SUCCEEDED:
            return 1.0
        if self.live is not None:
            return self.live.progress
        return self.job.saved_work_s / self.job.work_s

    @property
    def outlook(self) -> str:
        gpu = str(self.live.gpu) if self.live else ""
        return letters.outlook(self.job.state, self.position, gpu)


def _letter(eviction: Eviction) -> Letter:
    told = letters.Removal(
        job=str(eviction.placement.job),
        gpu=str(eviction.gpu),
        to_gpu=str(eviction.to_gpu or ""),
        origin=eviction.origin,
        state=eviction.state,
        at=eviction.proposed_at,
        why=eviction.why,
        reason=eviction.reason,
        decided_by=words.name(eviction.decided_by) if eviction.decided_by else "",
        reaction_ms=eviction.reaction_ms,
        lost_work_s=eviction.lost_work_s,
        checkpoint=eviction.placement.job.checkpoint != Checkpoint.NONE,
        finished_first=eviction.finished_first,
        by_node=eviction.by_node,
    )
    return Letter(eviction, letters.subject(told), letters.body(told))


@dataclass
class ServiceRow:
    """One service as it is now. `qps` sums its instances; `p99_ms` is that of the slowest."""

    service: OnlineService
    instances: int = 0
    heard: int = 0
    qps: float | None = None
    p99_ms: float | None = None
    neighbours: int = 0
    name: str = field(init=False)

    def __post_init__(self) -> None:
        self.name = self.service.name

    @property
    def ratio(self) -> float | None:
        """p99 as a part of the SLO; None without one of them."""
        slo = self.service.slo_p99_ms
        return self.p99_ms / slo if self.p99_ms is not None and slo else None

    @property
    def over(self) -> bool:
        return self.ratio is not None and self.ratio > 1

    def add(self, sample: LiveGpu | None, has_neighbour: bool) -> None:
        self.instances += 1
        self.neighbours += has_neighbour
        if sample is None or not sample.is_live:
            return
        self.heard += 1
        self.qps = _plus(self.qps, sample.online_qps)
        self.p99_ms = _worst(self.p99_ms, sample.online_p99_ms)


def services(user: User) -> QuerySet[OnlineService]:
    return in_sight(OnlineService.objects.select_related("team", "pool"), user, "pool")


def service_rows(rows: Iterable[OnlineService]) -> list[ServiceRow]:
    """Each service with its instances, load and latency: two queries more."""
    found = {service.pk: ServiceRow(service) for service in rows}
    instances = OnlineInstance.objects.filter(service__in=found, gpu__retired_at=None)
    places = list(instances.values_list("service_id", "gpu_id"))
    taken = guests_on(gpu_id for _, gpu_id in places)
    samples = live()
    for service_id, gpu_id in places:
        found[service_id].add(samples.get(gpu_id), gpu_id in taken)
    return list(found.values())


def guests_on(gpu_ids: Iterable[int]) -> dict[int, Placement]:
    """The live placement of each of these GPUs that has one."""
    rows = Placement.objects.exclude(state=PlacementState.ENDED).select_related("job")
    return {placement.gpu_id: placement for placement in rows.filter(gpu__in=set(gpu_ids))}


@dataclass(frozen=True)
class InstanceRow:
    """One instance: where it is, how it does, and who is beside it."""

    instance: OnlineInstance
    sample: LiveGpu | None
    neighbour: Placement | None

    @property
    def is_live(self) -> bool:
        return self.sample is not None and self.sample.is_live

    @property
    def ratio_percent(self) -> float | None:
        """p99 in percent of the SLO; None when stale or without one of them."""
        slo = self.instance.service.slo_p99_ms
        if self.sample is None or not self.is_live or not slo:
            return None
        p99_ms = self.sample.online_p99_ms
        return None if p99_ms is None else p99_ms / slo * 100


def instance_rows(service: OnlineService) -> list[InstanceRow]:
    instances = OnlineInstance.objects.filter(service=service, gpu__retired_at=None)
    found = list(
        instances.select_related("service", "gpu__node").order_by("gpu__node__name", "gpu__index")
    )
    taken = guests_on(instance.gpu_id for instance in found)
    samples = live()
    return [
        InstanceRow(instance, samples.get(instance.gpu_id), taken.get(instance.gpu_id))
        for instance in found
    ]


@dataclass(frozen=True)
class Sides:
    """p99 of the instances with and without a neighbour, now; None without any."""

    with_neighbour_ms: float | None
    without_ms: float | None
    with_count: int
    without_count: int


def sides(rows: Iterable[InstanceRow]) -> Sides:
    """A glance, not a proof: the two sides may carry different load."""
    values: dict[bool, list[float]] = defaultdict(list)
    for row in rows:
        if row.sample is not None and row.is_live and row.sample.online_p99_ms is not None:
            values[row.neighbour is not None].append(row.sample.online_p99_ms)
    return Sides(_mean(values[True]), _mean(values[False]), len(values[True]), len(values[False]))


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _plus(total: float | None, value: float | None) -> float | None:
    return total if value is None else (total or 0) + value


def _worst(worst: float | None, value: float | None) -> float | None:
    return worst if value is None else max(worst or 0, value)
