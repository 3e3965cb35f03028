"""Where a job does not go for a while, as evictions and nodes say, until a person lifts it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from agents.wire.names import Avoid, Origin
from console import doorbell
from console.accounts import access
from console.accounts.models import Role, User
from console.announce import announce
from console.audit.services import person, record
from console.errors import SomebodyWasFirst
from console.inventory.models import Gpu
from console.scheduling.models import AvoidEntry, Placement
from console.workloads.models import OfflineJob

# A job that was taken off a GPU does not come back to it for this long. Our choice.
AVOID_S: Final = 600.0
# The node goes empty anyway, so nothing speaks against coming back.
_HARMLESS: Final = frozenset({Origin.DRAIN, Origin.CANCEL})


def in_force(now: datetime) -> QuerySet[AvoidEntry]:
    return AvoidEntry.objects.filter(expires_at__gt=now, lifted_at=None)


def pairs(now: datetime) -> frozenset[tuple[UUID, int]]:
    """The jobs and GPUs that are kept apart now."""
    return frozenset(in_force(now).values_list("job_id", "gpu_id"))


def add(job_id: UUID, gpu_ids: Iterable[int], origin: str, why: str, now: datetime) -> None:
    """From now on, and for `AVOID_S`, also where a person lifted an earlier entry."""
    rows = [
        AvoidEntry(
            job_id=job_id,
            gpu_id=gpu_id,
            origin=origin,
            why=why[:300],
            created_at=now,
            expires_at=now + timedelta(seconds=AVOID_S),
        )
        for gpu_id in gpu_ids
    ]
    AvoidEntry.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["job", "gpu"],
        update_fields=["origin", "why", "created_at", "expires_at", "lifted_at", "lifted_by"],
    )


def after_eviction(placement: Placement, origin: Origin, why: str, now: datetime) -> None:
    """A job that goes on elsewhere does not come back at once."""
    if origin not in _HARMLESS and _goes_on(placement):
        add(placement.job_id, [placement.gpu_id], origin, why, now)


def on_hint(placement: Placement, hint: object, why: str, now: datetime) -> None:
    """What the node advises after a stop of its own; an unknown hint is none."""
    if hint not in set(Avoid) or not _goes_on(placement):
        return
    gpus = [placement.gpu_id]
    if hint == Avoid.NODE:
        here = Gpu.objects.filter(node=placement.gpu.node_id, retired_at=None)
        gpus = list(here.values_list("pk", flat=True))
    add(placement.job_id, gpus, Origin.OVERLOAD, why, now)


def _goes_on(placement: Placement) -> bool:
    return OfflineJob.objects.filter(pk=placement.job_id, state__in=OfflineJob.OPEN).exists()


@transaction.atomic
def lift(entry: AvoidEntry, user: User, reason: str, now: datetime) -> None:
    """Let the next round place the job there again.

    Raises PermissionDenied, and SomebodyWasFirst when it is over.
    """
    access.require(user, Role.OPERATOR, entry.gpu.node.pool)
    still = in_force(now).filter(pk=entry.pk, expires_at=entry.expires_at)
    if not still.update(lifted_at=now, lifted_by=user):
        raise SomebodyWasFirst(f"{entry} is over already; look again.")
    record(person(user), "job.lift_avoid", entry.job, now=now, reason=reason, gpu=str(entry.gpu))
    announce("jobs", id=entry.job_id)
    doorbell.ring(doorbell.RUN_ROUND)


def prune(now: datetime) -> None:
    """Forget what is over."""
    AvoidEntry.objects.filter(expires_at__lte=now).delete()
