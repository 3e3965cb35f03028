"""Start, carry on and end a Run. Only this module writes its state; every write is fenced."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from console import doorbell
from console.accounts.models import User
from console.announce import announce
from console.audit.services import person, record, system
from console.errors import SomebodyWasFirst
from console.runs import leases
from console.runs.models import Run

# A worker that writes no progress for so long has died; another one begins again. Our choice.
LEASE_S: Final = 120.0
OPEN: Final = (Run.State.QUEUED, Run.State.RUNNING)


@transaction.atomic
def start(kind: str, arguments: dict[str, Any], user: User | None, task: str, now: datetime) -> Run:
    """A queued run; `task` is the bell of the worker that does such runs. Without a user the
    console itself begins it."""
    run = Run.objects.create(kind=kind, arguments=arguments, started_by=user, created_at=now)
    record(person(user) if user else system(kind), "run.start", run, now=now, kind=kind)
    doorbell.ring(task, run.pk)
    return run


def claim(run_id: UUID, holder: str, now: datetime) -> Run | None:
    """The run for `holder` to do; None when it is over or somebody else's."""
    fence = leases.acquire(_lease(run_id), holder, LEASE_S, now)
    if fence is None:
        return None
    mine = Run.objects.filter(pk=run_id, state__in=OPEN)
    mine.filter(cancel_wanted=True).update(state=Run.State.CANCELLED, finished_at=now)
    if not mine.update(state=Run.State.RUNNING, fence=fence, started_at=now, progress=0.0):
        leases.release(_lease(run_id), holder, fence)
        return None
    return Run.objects.get(pk=run_id)


def progress(run: Run, fraction: float, message: str) -> bool:
    """Say how far it is; False when the run was taken over or is to stop."""
    mine = Run.objects.filter(pk=run.pk, fence=run.fence, state=Run.State.RUNNING)
    alive = mine.filter(cancel_wanted=False).update(progress=fraction, message=message[:300])
    _say(run)
    return bool(alive)


def keep(run: Run, now: datetime) -> None:
    """Say that its worker is alive, where the work takes longer than a lease."""
    leases.renew(_lease(run.pk), run.fence, LEASE_S, now)


def succeed(run: Run, result: dict[str, Any], now: datetime) -> None:
    _end(run, Run.State.SUCCEEDED, now, progress=1.0, result=result)


def fail(run: Run, message: str, now: datetime, result: dict[str, Any] | None = None) -> None:
    _end(run, Run.State.FAILED, now, message=message[:300], result=result or {})


def stopped(run: Run, now: datetime) -> None:
    """It ended because somebody asked; nothing happens when another worker took it over."""
    mine = Run.objects.filter(pk=run.pk, fence=run.fence, state=Run.State.RUNNING)
    if mine.update(state=Run.State.CANCELLED, finished_at=now):
        _say(run)


@transaction.atomic
def cancel(run: Run, user: User, now: datetime) -> None:
    """At once while it is queued; a running one stops at its next step. Raises SomebodyWasFirst."""
    queued = Run.objects.filter(pk=run.pk, state=Run.State.QUEUED)
    running = Run.objects.filter(pk=run.pk, state=Run.State.RUNNING, cancel_wanted=False)
    if not queued.update(state=Run.State.CANCELLED, finished_at=now) and not running.update(
        cancel_wanted=True
    ):
        raise SomebodyWasFirst("This run is over, or is being cancelled already.")
    record(person(user), "run.cancel", run, now=now)
    _say(run)


def waiting(kind: str) -> list[UUID]:
    """Runs of `kind` that nobody does: their bell was lost, or their worker died."""
    return list(
        Run.objects.filter(kind=kind, state__in=OPEN)
        .order_by("created_at")
        .values_list("pk", flat=True)
    )


def _end(run: Run, state: Run.State, now: datetime, **fields: Any) -> None:
    mine = Run.objects.filter(pk=run.pk, fence=run.fence, state=Run.State.RUNNING)
    if not mine.update(state=state, finished_at=now, **fields):
        raise SomebodyWasFirst(f"Run {run.pk} was taken over by another worker.")
    _say(run)


def _say(run: Run) -> None:
    announce("runs", id=run.pk)


def _lease(run_id: UUID) -> str:
    return f"run:{run_id}"
