"""Old samples and events go, and never what something else still refers to."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from agents.wire.names import EventKind
from console.history import forgetting
from console.telemetry.models import FleetSample, NodeEvent
from tests.console.inventory.cast import NOW, a_node, a_pool

pytestmark = pytest.mark.django_db


def test_old_samples_thin_out_to_one_a_quarter_and_then_go(settings):
    hour = NOW.replace(minute=0, second=3, microsecond=0)
    pool = a_pool("web")
    FleetSample.objects.bulk_create(
        FleetSample(pool=pool, at=hour - timedelta(days=days, seconds=-step), gpus=1, reporting=1)
        for days in (1, 20, 800)
        for step in range(0, 3_600, 10)
    )
    forgetting.forget(NOW)

    def left(days: int) -> list[datetime]:
        since = hour - timedelta(days=days)
        within = FleetSample.objects.filter(at__gte=since, at__lt=since + timedelta(hours=1))
        return list(within.order_by("at").values_list("at", flat=True))

    assert len(left(1)) == 360
    assert [at.minute for at in left(20)] == [0, 15, 30, 45]
    assert left(800) == []


def test_evidence_of_an_eviction_and_counted_freezes_outlive_other_events(monkeypatch):
    monkeypatch.setattr(forgetting, "BATCH", 2)
    node, old = a_node("node-1"), NOW - timedelta(days=400)

    def event(kind: EventKind = EventKind.TRANSITION, at: datetime = old, **of: object) -> None:
        NodeEvent.objects.create(
            event_id=uuid4(), node=node, seq=NodeEvent.objects.count(), kind=kind, at=at,
            received_at=at, **of,
        )  # fmt: skip

    for _ in range(5):
        event()
    event(at=NOW)
    event(eviction_id=uuid4())
    event(placement_id=uuid4())
    event(EventKind.FROZEN)
    assert forgetting.forget(NOW) == 5
    assert NodeEvent.objects.count() == 4
