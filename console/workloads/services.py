"""Submit a job, and take it back. Placing and ending jobs is the business of `scheduling`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction

from agents.wire.limits import MAX_GPUS_PER_NODE
from agents.wire.names import Checkpoint, Origin, PlacementState
from console import doorbell
from console.accounts import access
from console.accounts.models import Role, User
from console.announce import announce
from console.audit.services import person, record, system
from console.errors import Invalid, SomebodyWasFirst
from console.evictions import services as evictions
from console.evictions.models import Eviction
from console.inventory.models import Pool
from console.scheduling.models import Placement
from console.workloads import profiles, provenance
from console.workloads.models import OfflineJob, Team
from console.workloads.profiles import Profile

LONGEST_WORK_S: Final = 366 * 86_400.0
LARGEST_MEMORY_BYTES: Final = 1 << 42
MOST_CPU_CORES: Final = 4_096.0
MOST_LABELS: Final = 32
LONGEST_IMAGE: Final = 300
_TEAM: Final = re.compile(r"[A-Za-z0-9_-]{1,60}", re.ASCII)
_LABEL: Final = re.compile(r"[\w./-]{1,63}=[\w. /-]{0,63}", re.ASCII)
# A job that is profiled runs: it is stopped, not taken out of a list.
_WAITING: Final = (OfflineJob.State.PENDING, OfflineJob.State.QUEUED)
_SAME: Final = (
    "team", "owner", "priority", "gpu_models", "pools", "command", "image", "gpus", "cpu_cores",
    "host_memory_bytes", "labels", "checkpoint", "checkpoint_period_s", "work_s", "max_retries",
    "sm_percent", "gpu_util_percent", "memory_bytes", "memory_bandwidth_percent",
    "occupancy_percent", "step_s", "profile_key", "profile_source", "profile_gpu_model",
    "profile_measured_at", "profile_why",
)  # fmt: skip


@dataclass(frozen=True)
class Submission:
    """What a person asks for. Percent of one whole GPU; empty `pools` and `gpu_models`: any.

    A profile is SM activity, utilisation and memory together. Without one the job is measured
    before it is queued, and `memory_bytes` is what it asks for, None: whatever it turns out to be.
    `labels` are `key=value`, all of them required of its GPU. `cpu_cores` and `host_memory_bytes`
    are of its node, None: not stated.
    """

    name: str
    team: Team
    work_s: float
    sm_percent: float | None = None
    gpu_util_percent: float | None = None
    memory_bytes: int | None = None
    memory_bandwidth_percent: float = 0.0
    priority: int = 0
    checkpoint: Checkpoint = Checkpoint.ON_SIGTERM
    checkpoint_period_s: float = 600.0
    pools: Sequence[str] = ()
    gpu_models: Sequence[str] = ()
    command: Sequence[str] = ()
    max_retries: int = 3
    image: str = ""
    gpus: int = 1
    cpu_cores: float | None = None
    host_memory_bytes: int | None = None
    labels: Sequence[str] = ()

    @property
    def has_profile(self) -> bool:
        return self.sm_percent is not None and self.gpu_util_percent is not None


@transaction.atomic
def submit(wanted: Submission, owner: User, now: datetime) -> OfflineJob:
    """The job, queued, or pending where its profile is to be measured first.

    Raises PermissionDenied, and Invalid with what is wrong field by field.
    """
    pools = _pools_of(wanted, owner)
    if errors := dict(_errors(wanted)):
        raise Invalid("The job was not submitted: some values do not fit.", errors)
    job = OfflineJob.objects.create(
        name=wanted.name.strip(),
        team=wanted.team,
        owner=owner,
        state_since=now,
        submitted_at=now,
        priority=wanted.priority,
        work_s=wanted.work_s,
        image=wanted.image,
        gpus=wanted.gpus,
        cpu_cores=wanted.cpu_cores,
        host_memory_bytes=wanted.host_memory_bytes,
        labels=sorted(set(wanted.labels)),
        **_profile_of(wanted, owner, now),
        checkpoint=wanted.checkpoint,
        checkpoint_period_s=wanted.checkpoint_period_s,
        pools=pools,
        gpu_models=list(wanted.gpu_models),
        command=list(wanted.command),
        max_retries=wanted.max_retries,
    )
    record(person(owner), "job.submit", job, now=now, profile=job.profile_source)
    _say(job)
    waits = job.state == OfflineJob.State.PENDING
    doorbell.ring(doorbell.TICK_PROFILING if waits else doorbell.RUN_ROUND)
    return job


def _profile_of(wanted: Submission, owner: User, now: datetime) -> dict[str, Any]:
    """The columns of its profile, and the state that it begins in."""
    key = profiles.key_of(owner.pk, wanted.image, wanted.command, wanted.gpu_models, wanted.gpus)
    if wanted.has_profile:
        given = Profile(
            wanted.sm_percent or 0.0,
            wanted.gpu_util_percent or 0.0,
            wanted.memory_bytes or 0,
            wanted.memory_bandwidth_percent,
        ).rounded()
        return {**given.columns(), "profile_key": key, "state": OfflineJob.State.QUEUED}
    if (known := provenance.of_one_like(key, now)) is not None:
        return {**known, "profile_key": key, "state": OfflineJob.State.QUEUED}
    assumed = profiles.conservative(wanted.memory_bytes).columns()
    several = wanted.gpus > 1
    return {
        **assumed,
        "profile_source": OfflineJob.ProfileSource.CONSERVATIVE,
        "profile_why": provenance.SEVERAL_GPUS if several else "",
        "profile_key": key,
        "state": OfflineJob.State.QUEUED if several else OfflineJob.State.PENDING,
    }


@transaction.atomic
def resubmit(job: OfflineJob, name: str, now: datetime) -> OfflineJob:
    """A new job like `job`, from its beginning. One that nobody has measured is measured."""
    same: dict[str, Any] = {field: getattr(job, field) for field in _SAME}
    if job.profile_source == OfflineJob.ProfileSource.MEASURED:
        same["profile_source"] = OfflineJob.ProfileSource.HISTORY
    if job.profile_source == OfflineJob.ProfileSource.CONSERVATIVE and job.gpus == 1:
        same |= {"state": OfflineJob.State.PENDING, "profile_why": ""}
    again = OfflineJob.objects.create(name=name, state_since=now, submitted_at=now, **same)
    record(system("workloads"), "job.resubmit", again, now=now, like=str(job.pk))
    _say(again)
    return again


def cancel(job: OfflineJob, user: User, reason: str, now: datetime) -> Eviction | None:
    """Take the job back: at once while it waits, else through the stop that is returned.

    Raises PermissionDenied, and SomebodyWasFirst when the job is over.
    """
    placement = _live(job)
    require_cancel(job, user, placement)
    if placement is not None:
        return evictions.request(placement, Origin.CANCEL, person(user), reason, now)
    with transaction.atomic():
        waiting = OfflineJob.objects.filter(pk=job.pk, state__in=_WAITING)
        if not waiting.update(
            state=OfflineJob.State.CANCELLED, state_since=now, finished_at=now, wait_reason=""
        ):
            job.refresh_from_db()
            raise SomebodyWasFirst(f"{job} is {job.get_state_display().lower()} already.")
        record(person(user), "job.cancel", job, now=now, reason=reason)
        _say(job)
    return None


def may_cancel(job: OfflineJob, user: User) -> bool:
    """Its owner may, and an operator of every pool that it may run in."""
    if job.owner_id == user.pk and user.is_active:
        return True
    return operates(job, user)


def operates(job: OfflineJob, user: User) -> bool:
    """Whether they are an operator of every pool that it may run in."""
    return all(access.allowed(user, Role.OPERATOR, pool) for pool in _may_run_in(job))


def require_operator(job: OfflineJob, user: User) -> None:
    """Raises PermissionDenied, naming the first pool where the role is missing."""
    for pool in _may_run_in(job):
        access.require(user, Role.OPERATOR, pool)


def _may_run_in(job: OfflineJob) -> list[Pool | None]:
    """Its pools; [None] stands for all, also where none of those it names is left."""
    return list(Pool.objects.filter(name__in=job.pools)) or [None]


def require_cancel(job: OfflineJob, user: User, placement: Placement | None) -> None:
    """Raises PermissionDenied; an operator of the pool where the job runs may cancel it too."""
    if not may_cancel(job, user):
        access.require(user, Role.OPERATOR, placement.gpu.node.pool if placement else None)


def _live(job: OfflineJob) -> Placement | None:
    return (
        Placement.objects.filter(job=job)
        .exclude(state=PlacementState.ENDED)
        .select_related("job", "gpu__node__pool")
        .first()
    )


def _pools_of(wanted: Submission, owner: User) -> list[str]:
    """The pools named, each of them open to `owner`; without any, all that are."""
    if not wanted.pools:
        if access.allowed(owner, Role.OPERATOR):
            return []
        mine = list(access.pools_for(owner, Role.OPERATOR).values_list("name", flat=True))
        if not mine:
            access.require(owner, Role.OPERATOR)
        return mine
    known = {pool.name: pool for pool in Pool.objects.filter(name__in=wanted.pools)}
    if unknown := sorted(set(wanted.pools) - set(known)):
        raise Invalid(f"There is no pool {unknown[0]}.", {"pools": f"unknown: {unknown[0]}"})
    for pool in known.values():
        access.require(owner, Role.OPERATOR, pool)
    return sorted(known)


def _errors(wanted: Submission) -> Iterator[tuple[str, str]]:
    if not 0 < len(wanted.name.strip()) <= 128 or not wanted.name.isprintable():
        yield "name", "Use 1 to 128 printable characters."
    if not 0 < wanted.work_s <= LONGEST_WORK_S:
        yield "work_s", "Give more than 0 s, at most a year."
    yield from _errors_of_profile(wanted)
    yield from _errors_of_needs(wanted)
    if not 0 < wanted.checkpoint_period_s < math.inf:
        yield "checkpoint_period_s", "Give more than 0 s."
    if not -1_000 <= wanted.priority <= 1_000:
        yield "priority", "Give -1000 to 1000."
    if not 0 <= wanted.max_retries <= 100:
        yield "max_retries", "Give 0 to 100."


def _errors_of_profile(wanted: Submission) -> Iterator[tuple[str, str]]:
    if wanted.memory_bytes is not None and not 0 < wanted.memory_bytes <= LARGEST_MEMORY_BYTES:
        yield "memory_bytes", "Give more than 0 bytes, at most 4 TiB."
    for field in ("sm_percent", "gpu_util_percent", "memory_bandwidth_percent"):
        value = getattr(wanted, field)
        if value is not None and not 0 <= value <= 100:
            yield field, "Give 0 to 100 percent of one GPU."
    parts = (wanted.sm_percent, wanted.gpu_util_percent)
    if any(part is not None for part in parts) and None in (*parts, wanted.memory_bytes):
        why = "Give memory, SM activity and utilisation together, or neither of the last two."
        yield "sm_percent", why


def _errors_of_needs(wanted: Submission) -> Iterator[tuple[str, str]]:
    if not 1 <= wanted.gpus <= MAX_GPUS_PER_NODE:
        yield "gpus", f"Give 1 to {MAX_GPUS_PER_NODE}."
    if wanted.cpu_cores is not None and not 0 < wanted.cpu_cores <= MOST_CPU_CORES:
        yield "cpu_cores", f"Give more than 0 cores, at most {MOST_CPU_CORES:g}."
    memory_bytes = wanted.host_memory_bytes
    if memory_bytes is not None and not 0 < memory_bytes <= LARGEST_MEMORY_BYTES:
        yield "host_memory_bytes", "Give more than 0 bytes, at most 4 TiB."
    if wrong := [label for label in wanted.labels if not _LABEL.fullmatch(label)]:
        yield "labels", f"{wrong[0][:60]!r} is no label: write key=value."
    if len(wanted.labels) > MOST_LABELS:
        yield "labels", f"Give at most {MOST_LABELS}."
    if len(wanted.image) > LONGEST_IMAGE or not (wanted.image or "-").isprintable():
        yield "image", f"Use up to {LONGEST_IMAGE} printable characters."


def _say(job: OfflineJob) -> None:
    announce("jobs", id=job.pk, state=job.state)


@transaction.atomic
def add_team(name: str, admin: User, now: datetime) -> Team:
    """A team that may own services and jobs. Raises PermissionDenied, Invalid, SomebodyWasFirst."""
    access.require(admin, Role.ADMIN)
    if not _TEAM.fullmatch(name):
        raise Invalid(
            f"{name[:60]!r} is no name of a team.",
            {"name": "Use up to 60 letters, digits and hyphens."},
        )
    try:
        with transaction.atomic():
            team = Team.objects.create(name=name)
    except IntegrityError:
        raise SomebodyWasFirst(f"There is a team {name} already.") from None
    record(person(admin), "team.create", team, now=now)
    return team
