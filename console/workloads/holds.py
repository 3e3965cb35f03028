"""Hold a job that faulted, and let it go again before its time."""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Q

from console import doorbell
from console.accounts.models import User
from console.announce import announce
from console.audit.services import Actor, person, record
from console.errors import Refused, SomebodyWasFirst
from console.workloads import backoff, services
from console.workloads.backoff import Record
from console.workloads.models import OfflineJob


def not_held(now: datetime) -> Q:
    """The jobs that a round may place."""
    return Q(held_until=None) | Q(held_until__lte=now)


@transaction.atomic
def hold(job_id: UUID, actor: Actor, at: datetime, now: datetime, *, cause_id: UUID) -> None:
    """A process of the job faulted at `at`: it is in no round until its hold is over."""
    job = OfflineJob.objects.select_for_update().get(pk=job_id)
    counted = backoff.after_fault(record_of(job), at)
    OfflineJob.objects.filter(pk=job_id).update(
        faults=counted.faults,
        last_fault_at=counted.last_at,
        held_until=counted.held_until,
        proven_at=None,
    )
    record(
        actor,
        "job.hold",
        job,
        now=now,
        cause_id=cause_id,
        faults=counted.faults,
        held_until=counted.held_until.isoformat(),
    )
    announce("jobs", id=job.pk)


@transaction.atomic
def take_back(job_id: UUID, actor: Actor, now: datetime, *, cause_id: UUID) -> None:
    """It was not the job's fault after all: as if that one had not been counted."""
    job = OfflineJob.objects.select_for_update().get(pk=job_id)
    faults = max(0, job.faults - 1)
    OfflineJob.objects.filter(pk=job_id).update(faults=faults, held_until=None)
    record(actor, "job.take_back_hold", job, now=now, cause_id=cause_id, faults=faults)
    announce("jobs", id=job.pk)
    doorbell.ring(doorbell.RUN_ROUND)


@transaction.atomic
def lift(job: OfflineJob, user: User, reason: str, now: datetime) -> None:
    """Let rounds place the job again now; its faults stay counted, so the next hold is longer.

    Raises PermissionDenied, Refused when it is not held, SomebodyWasFirst.
    """
    services.require_operator(job, user)
    if not job.is_held(now):
        raise Refused(f"{job} is not held, so there is nothing to lift.")
    same = OfflineJob.objects.filter(pk=job.pk, held_until=job.held_until)
    if not same.update(held_until=None):
        raise SomebodyWasFirst(f"The hold of {job} was lifted or renewed just now; look again.")
    record(person(user), "job.lift_hold", job, now=now, reason=reason)
    announce("jobs", id=job.pk)
    doorbell.ring(doorbell.RUN_ROUND)


def record_of(job: OfflineJob) -> Record | None:
    return Record(job.faults, job.last_fault_at) if job.last_fault_at else None
