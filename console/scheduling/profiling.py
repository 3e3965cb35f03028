"""Measure jobs that came without a profile, on GPUs where nobody else runs.

    PENDING ── a free GPU ──> PROFILING ── measured ──> QUEUED ──> PLACED, on the same placement
       └── one like it was measured, or no free GPU in time ──> QUEUED

A measured job simply goes on where it is: to queue it would cost it a restart for nothing, and the
next round may move it as any other. These first minutes are its burn-in too: once it has run for
`BURN_IN_S` without a fault it is proven.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet

from agents.wire.ids import uuid7
from agents.wire.messages import Event, Measure
from agents.wire.names import PlacementState, SharingMode
from console import doorbell, figures
from console.announce import announce
from console.audit.services import agent, record, system
from console.errors import SomebodyWasFirst
from console.inventory import nodes
from console.inventory.models import Gpu, Node, Pool
from console.scheduling import avoid, budgets, jobs, lifecycle, placing, vacant
from console.scheduling.free_gpus import Room, Wanting, choose
from console.scheduling.models import Placement
from console.scheduling.observed import NOBODY
from console.telemetry.latest import LiveGpu
from console.workloads import profiles, provenance
from console.workloads.holds import not_held
from console.workloads.models import OfflineJob, OnlineInstance

log = logging.getLogger(__name__)

PROFILING: Final = system("profiling")
Source = OfflineJob.ProfileSource
# Reads the last samples by GPU; none while Redis is away.
Live = Callable[[], Mapping[int, LiveGpu]]

# So many at once in the whole cluster: each takes a whole GPU. Our choice.
AT_ONCE: Final = 8
# Looked at in one turn; the next one comes two seconds later.
BATCH: Final = 500
WHOLE_PERCENT: Final = 100.0


def tick(live: Live, now: datetime) -> None:
    """One turn of all that the clock moves. What it finds overtaken is looked at in the next."""
    admit_like(now)
    begin(live, now)
    give_up(now)
    prove(now)


# --- begin --------------------------------------------------------------------------------


def begin(live: Live, now: datetime) -> int:
    """How many jobs go on a free GPU now; none when another process took one of them meanwhile.

    The grid is read only where some job wants to be measured.
    """
    wanting = list(_wanting(now)[:BATCH])
    under_way = OfflineJob.objects.filter(state=lifecycle.PROFILING)
    at_once = AT_ONCE - under_way.count() if wanting else 0
    free = vacant.gpus(live()) if at_once > 0 else []
    if not free:
        return 0
    room = Room(
        at_once,
        budgets.team_room(),
        frozenset(_keys_under_way()),
        avoid.pairs(now),
    )
    chosen = choose([_facts(job) for job in wanting], vacant.facts(free), room)
    if not chosen:
        return 0
    try:
        return _place(chosen, {job.pk: job for job in wanting}, free, now)
    except SomebodyWasFirst as overtaken:
        log.info("nothing is measured in this turn: %s", overtaken)
        return 0


def _keys_under_way() -> list[str]:
    """The templates of which a job is being measured, for those like it to learn from."""
    under_way = OfflineJob.objects.filter(state=lifecycle.PROFILING).exclude(profile_key="")
    return list(under_way.values_list("profile_key", flat=True))


@transaction.atomic
def _place(
    chosen: Mapping[UUID, int],
    wanting: Mapping[UUID, OfflineJob],
    free: Iterable[Gpu],
    now: datetime,
) -> int:
    """Raises SomebodyWasFirst."""
    open_ = placing.still_open(list(chosen.values()))
    gpus = {gpu.pk: gpu for gpu in free}
    wanted = [
        _placement(wanting[job_id], gpus[gpu_id], now)
        for job_id, gpu_id in chosen.items()
        if gpu_id in open_
    ]
    Placement.objects.bulk_create(wanted, ignore_conflicts=True)
    made = placing.written(wanted)
    jobs.begin_profiling({one.job_id for one in made}, now)
    nodes.touch([gpus[one.gpu_id].node_id for one in made], now)
    for one in made:
        record(PROFILING, "job.profile_begin", one.job, now=now, gpu=str(gpus[one.gpu_id]))
        announce("jobs", id=one.job_id, state=lifecycle.PROFILING)
    return len(made)


def _placement(job: OfflineJob, gpu: Gpu, now: datetime) -> Placement:
    """With all of the card: there is nobody to leave room for."""
    return Placement(
        id=uuid7(),
        job=job,
        gpu=gpu,
        state=PlacementState.DESIRED,
        state_since=now,
        created_at=now,
        sm_share_percent=WHOLE_PERCENT,
        memory_quota_bytes=vacant.quota_bytes(gpu),
        resume_work_s=job.saved_work_s,
        work_done_s=job.saved_work_s,
    )


def _wanting(now: datetime) -> QuerySet[OfflineJob]:
    ready = Q(not_before=None) | Q(not_before__lte=now)
    waiting = OfflineJob.objects.filter(ready, not_held(now), state=lifecycle.PENDING)
    return waiting.select_related("team").order_by("-priority", "submitted_at", "pk")


def _facts(job: OfflineJob) -> Wanting:
    return Wanting(
        job.pk,
        job.profile_key,
        job.team.name,
        job.memory_bytes,
        frozenset(job.pools),
        frozenset(job.gpu_models),
        frozenset(job.labels),
        job.cpu_cores,
        job.host_memory_bytes,
    )


# --- what nodes are told and tell ---------------------------------------------------------


def measures(placements: Collection[Placement]) -> dict[UUID, Measure]:
    """By placement, how it is to be measured: those of a job that nobody has measured, alone on
    its GPU. Also one that a round has put there."""
    unknown = [one for one in placements if one.job.profile_source == Source.CONSERVATIVE]
    if not unknown:
        return {}
    shared = OnlineInstance.objects.filter(gpu__in=[one.gpu_id for one in unknown])
    taken = set(shared.values_list("gpu_id", flat=True))
    measure = Measure(float(settings.PROFILE_SETTLE_S), float(settings.PROFILE_WINDOW_S))
    return {one.pk: measure for one in unknown if one.gpu_id not in taken and one.job.gpus == 1}


@transaction.atomic
def agent_measured(node: Node, event: Event, now: datetime) -> None:
    """The measurement of a job becomes its profile, once; a late one counts as long as the job is
    open and nobody has measured it.

    Raises ValueError for one that cannot be.
    """
    mine = Placement.objects.filter(gpu__node=node).select_related("job", "gpu__node")
    placement = mine.filter(pk=event.placement_id or NOBODY).first()
    if placement is None:
        log.warning("%s measured placement %s, which is not its own", node, event.placement_id)
        return
    gpu = placement.gpu
    if OnlineInstance.objects.filter(gpu=gpu).exists():
        raise ValueError(
            f"{gpu} is not free: a service runs there, so this is not of the job alone"
        )
    profile = profiles.measured(event.data, gpu.memory_bytes)
    facts = provenance.of_measurement(profile, gpu.model, str(gpu), now)
    unknown = OfflineJob.objects.filter(
        pk=placement.job_id, profile_source=Source.CONSERVATIVE, state__in=OfflineJob.OPEN
    )
    if not unknown.update(**facts):
        log.info("%s measured %s again, or too late", node, placement.job)
        return
    for state in (lifecycle.PROFILING, lifecycle.PENDING):
        jobs.admit(placement.job_id, state, now)
    nodes.touch([node.pk], now)
    record(agent(node.name), "job.profile", placement.job, now=now, **profile.columns())
    doorbell.ring(doorbell.RUN_ROUND)


# --- what time does -----------------------------------------------------------------------


def admit_like(now: datetime) -> int:
    """How many pending jobs are queued by what one like them has measured meanwhile."""
    pending = OfflineJob.objects.filter(state=lifecycle.PENDING).exclude(profile_key="")
    by_key: dict[str, list[UUID]] = defaultdict(list)
    for pk, key in pending.values_list("pk", "profile_key")[:BATCH]:
        by_key[key].append(pk)
    known = provenance.of_ones_like(by_key, now)
    waiting = [(pk, known[key]) for key in known for pk in by_key[key]]
    return sum(jobs.admit(pk, lifecycle.PENDING, now, **facts) for pk, facts in waiting)


def give_up(now: datetime) -> int:
    """How many jobs go on by the profile that is assumed of them: no free GPU came in time, or the
    measurement did not end. Where no pool takes part, nobody waits for anything: no time passes."""
    taking_part = (SharingMode.SHADOW, SharingMode.ENFORCE)
    if not Pool.objects.filter(sharing_mode__in=taking_part).exists():
        return 0
    within = now - timedelta(seconds=settings.PROFILE_WITHIN_S)
    limit = now - timedelta(seconds=settings.PROFILE_LIMIT_S)
    late = OfflineJob.objects.filter(
        Q(held_until=None) | Q(held_until__lte=within),
        state=lifecycle.PENDING,
        submitted_at__lte=within,
    ).exclude(profile_key__in=_keys_under_way())
    endless = OfflineJob.objects.filter(state=lifecycle.PROFILING, state_since__lte=limit)
    reasons = (
        (late, lifecycle.PENDING, f"no free GPU within {figures.span(settings.PROFILE_WITHIN_S)}"),
        (
            endless,
            lifecycle.PROFILING,
            f"not measured within {figures.span(settings.PROFILE_LIMIT_S)} on its GPU",
        ),
    )
    return sum(
        jobs.admit(pk, state, now, profile_why=why)
        for rows, state, why in reasons
        for pk in list(rows.values_list("pk", flat=True)[:BATCH])
    )


def prove(now: datetime) -> int:
    """How many jobs have just run long enough without a fault of theirs."""
    since = now - timedelta(seconds=settings.BURN_IN_S)
    calm = Q(last_fault_at=None) | Q(last_fault_at__lt=F("placements__started_at"))
    ripe = OfflineJob.objects.filter(
        calm,
        proven_at=None,
        state__in=(lifecycle.PROFILING, lifecycle.PLACED),
        placements__state=PlacementState.RUNNING,
        placements__started_at__lte=since,
    )
    ids = list(ripe.values_list("pk", flat=True)[:BATCH])
    proven = (
        OfflineJob.objects.filter(pk__in=ids, proven_at=None).update(proven_at=now) if ids else 0
    )
    for pk in ids:
        announce("jobs", id=pk)
    return proven
