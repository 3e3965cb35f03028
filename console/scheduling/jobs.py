"""Place jobs, and let them go on when a placement ended: the writer of both states."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q

from agents.wire.names import EndReason, Origin, PlacementState
from console import doorbell
from console.announce import announce
from console.errors import SomebodyWasFirst
from console.evictions.models import Eviction
from console.scheduling import lifecycle
from console.scheduling.lifecycle import JobEvent
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob

# The outcomes that take nothing away from a job's right to try again, but count as an eviction.
_TAKEN_OFF = (EndReason.EVICTED, EndReason.LEASE_EXPIRED)


def place(job_ids: Collection[UUID], now: datetime) -> None:
    """These jobs have a placement now. Raises SomebodyWasFirst unless all of them were waiting.

    Call it in the transaction that writes the placements.
    """
    placed = OfflineJob.objects.filter(pk__in=job_ids, state=lifecycle.QUEUED).update(
        state=lifecycle.next_job_state(lifecycle.QUEUED, JobEvent.PLACE),
        state_since=now,
        attempts=F("attempts") + 1,
        wait_reason="",
        not_before=None,
    )
    if placed != len(job_ids):
        raise SomebodyWasFirst(f"{len(job_ids) - placed} jobs no longer wait.")


def begin_profiling(job_ids: Collection[UUID], now: datetime) -> None:
    """These jobs are measured from now on. Raises SomebodyWasFirst unless all were pending.

    Call it in the transaction that writes the placements.
    """
    begun = OfflineJob.objects.filter(pk__in=job_ids, state=lifecycle.PENDING).update(
        state=lifecycle.next_job_state(lifecycle.PENDING, JobEvent.PROFILE),
        state_since=now,
        attempts=F("attempts") + 1,
        wait_reason="",
        not_before=None,
    )
    if begun != len(job_ids):
        raise SomebodyWasFirst(f"{len(job_ids) - begun} jobs are no longer pending.")


@transaction.atomic
def admit(job_id: UUID, before: str, now: datetime, **profile: Any) -> bool:
    """Queue a job that is pending or being measured (`before`), with these columns of its profile.
    One that runs goes on where it is. False when it was no longer in that state.
    """
    state = lifecycle.next_job_state(before, JobEvent.ADMIT)
    if before == lifecycle.PROFILING:
        state = lifecycle.next_job_state(state, JobEvent.PLACE)
    waiting = OfflineJob.objects.filter(pk=job_id, state=before)
    if not waiting.update(state=state, state_since=now, **profile):
        return False
    announce("jobs", id=job_id, state=state)
    if state == lifecycle.QUEUED:
        doorbell.ring(doorbell.RUN_ROUND)
    return True


@transaction.atomic
def end(
    placement: Placement,
    reason: EndReason,
    now: datetime,
    *,
    progress: float | None = None,
    work_done_s: float | None = None,
    lost_work_s: float | None = None,
) -> bool:
    """End a placement and let its job go on. False when it had ended already: nothing changes.

    Work that the report does not tell is taken from the last status of the node.
    """
    done_s = placement.work_done_s or None if work_done_s is None else work_done_s
    lost_s = placement.unsaved_work_s if lost_work_s is None else lost_work_s
    if reason is EndReason.FINISHED:
        progress, done_s, lost_s = 1.0, placement.job.work_s, 0.0
    facts = {"progress": progress, "work_done_s": done_s, "lost_work_s": lost_s}
    known = {name: value for name, value in facts.items() if value is not None}
    ended = Placement.objects.filter(pk=placement.pk).exclude(state=PlacementState.ENDED)
    if not ended.update(
        state=PlacementState.ENDED, state_since=now, ended_at=now, end_reason=reason, **known
    ):
        return False
    _go_on(placement, reason, done_s, lost_s, now)
    return True


def _go_on(
    placement: Placement,
    reason: EndReason,
    done_s: float | None,
    lost_s: float | None,
    now: datetime,
) -> None:
    job = OfflineJob.objects.select_for_update().get(pk=placement.job_id)
    failures = job.failures + (reason is EndReason.FAILED)
    event = lifecycle.job_event(
        reason,
        cancelled=_is_cancelled(placement),
        failures=failures,
        max_retries=job.max_retries,
    )
    facts: dict[str, Any] = {
        "failures": failures,
        "evictions": job.evictions + (reason in _TAKEN_OFF),
        "saved_work_s": lifecycle.saved_work_s(job.saved_work_s, job.work_s, done_s, lost_s),
    }
    if event is JobEvent.REQUEUE:
        facts["not_before"] = lifecycle.not_before(reason, failures, now)
    else:
        facts["finished_at"] = now
    if job.state in lifecycle.ON_A_GPU:
        OfflineJob.objects.filter(pk=job.pk, state=job.state).update(
            state=lifecycle.next_job_state(job.state, event), state_since=now, **facts
        )
    announce("jobs", id=job.pk)


def _is_cancelled(placement: Placement) -> bool:
    """Also where something else takes it off first: a stop of the node, a drain."""
    open_ = Eviction.objects.filter(placement=placement, state__in=Eviction.OPEN)
    return open_.filter(Q(origin=Origin.CANCEL) | Q(cancels=True)).exists()
