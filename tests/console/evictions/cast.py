"""A job that runs on a GPU, the people who may and may not take it off, and what nodes report."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from agents.wire.ids import uuid7
from agents.wire.messages import Event
from agents.wire.names import EventKind, Origin
from console.accounts.models import Role, User
from console.evictions import queries, services
from console.evictions.models import Eviction
from console.inventory.models import Gpu
from console.policies import services as policies
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob, Team
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import GIB, a_gpu, a_node, a_pool

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def an_approver(name: str = "ortega", **fields) -> User:
    return a_user(name, Role.APPROVER, **{"first_name": "M.", "last_name": "Ortega"} | fields)


def a_viewer() -> User:
    return a_user("lindqvist", Role.VIEWER)


def a_gpu_in_use() -> Gpu:
    pool = a_pool()
    policies.ensure_defaults(NOW, demo=False)
    pool.refresh_from_db()
    return a_gpu(a_node(pool=pool, state="CONNECTED"))


def a_job(name: str = "resnet-31", **fields) -> OfflineJob:
    team, _ = Team.objects.get_or_create(name="vision")
    values = {
        "team": team,
        "state": "PLACED",
        "state_since": NOW,
        "submitted_at": NOW,
        "sm_percent": 60,
        "gpu_util_percent": 90,
        "memory_bytes": 11 * GIB,
        "work_s": 36_000,
    }
    return OfflineJob.objects.create(name=name, **values | fields)


def a_placement(gpu: Gpu | None = None, job: OfflineJob | None = None, **fields) -> Placement:
    values: dict[str, Any] = {
        "state": "RUNNING",
        "state_since": NOW,
        "created_at": NOW,
        "started_at": NOW,
        "sm_share_percent": 40,
        "memory_quota_bytes": 12 * GIB,
        "memory_bytes": 11 * GIB,
        "unsaved_work_s": 840.0,
    }
    return Placement.objects.create(
        gpu=gpu or a_gpu_in_use(), job=job or a_job(), **values | fields
    )


def a_proposal(
    placement: Placement | None = None, origin: Origin = Origin.SLO, **evidence: Any
) -> Eviction:
    eviction = services.propose(
        placement or a_placement(), origin, "p99 over its SLO for 120 s", evidence, NOW
    )
    assert eviction is not None
    return eviction


def a_dispatched(placement: Placement | None = None, user: User | None = None) -> Eviction:
    eviction = a_proposal(placement)
    services.approve(eviction.pk, user or an_approver(), "Incident", NOW)
    services.tick(after(10))
    return fresh(eviction)


def fresh(eviction: Eviction | None) -> Eviction:
    assert eviction is not None
    return queries.load(eviction.pk)


def a_report(
    kind: EventKind, placement: Placement, eviction_id: Any = None, at: float = 0.0, **data: Any
) -> Event:
    return Event(
        seq=1,
        event_id=str(uuid7()),
        kind=kind,
        at=NOW.timestamp() + at,
        gpu_index=placement.gpu.index,
        placement_id=str(placement.pk),
        eviction_id=str(eviction_id) if eviction_id else None,
        data=data,
    )


def a_phase(eviction: Eviction, phase: str, at: float = 0.0, **data: Any) -> Event:
    data = {"phase": phase, **data}
    return a_report(EventKind.EVICTION_PHASE, eviction.placement, eviction.pk, at, **data)


def a_start(
    placement: Placement, origin: Origin = Origin.OVERLOAD, eviction_id: Any = None
) -> Event:
    data: dict[str, Any] = {
        "origin": origin.value,
        "why": "SM activity 99 % over 97 % for 5 s",
        "signal": "sm_activity",
        "value": 99.0,
        "limit": 97.0,
        "reaction_ms": 400.0,
    }
    return a_report(EventKind.EVICTION_STARTED, placement, eviction_id or uuid7(), **data)


def an_end(placement: Placement, reason: str = "evicted", **data: Any) -> Event:
    return a_report(EventKind.PLACEMENT_ENDED, placement, reason=reason, **data)
