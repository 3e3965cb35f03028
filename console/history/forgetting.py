"""What else of the past goes: samples of pools become fewer, then go; events of agents go.

Events that something else refers to stay for as long as that does: those of an eviction or of a
placement, which are its evidence, and the freezes, which are counted since the beginning.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db.models import QuerySet

from agents.wire.names import EventKind
from console.telemetry.models import FleetSample, NodeEvent

# Rows that go in one statement; there may be several a call.
BATCH: Final = 5_000
BATCHES: Final = 20
# Of old samples one a quarter of an hour stays: the first of its first minute.
_QUARTERS: Final = (0, 15, 30, 45)
_FIRST_S: Final = 10


def forget(now: datetime) -> int:
    """How many rows went."""
    kept = timedelta(days=settings.FLEET_SAMPLES_KEPT_DAYS)
    fine = timedelta(days=settings.FLEET_SAMPLES_FINE_DAYS)
    events = timedelta(days=settings.EVENTS_KEPT_DAYS)
    old = FleetSample.objects.filter(at__lt=now - fine)
    return sum(
        map(
            _delete,
            (
                FleetSample.objects.filter(at__lt=now - kept),
                old.exclude(at__minute__in=_QUARTERS),
                old.filter(at__second__gte=_FIRST_S),
                NodeEvent.objects.filter(
                    at__lt=now - events, eviction_id=None, placement_id=None
                ).exclude(kind=EventKind.FROZEN),
            ),
        )
    )


def _delete(rows: QuerySet[Any]) -> int:
    gone = 0
    for _ in range(BATCHES):
        some = list(rows.values_list("pk", flat=True)[:BATCH])
        rows.model._default_manager.filter(pk__in=some).delete()
        gone += len(some)
        if len(some) < BATCH:
            break
    return gone
