"""The two questions that every web process asks the database again and again: one query each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.db.models import CharField, Count, QuerySet, Value

from agents.wire.names import EventKind, PlacementState
from console.evictions.models import Eviction
from console.inventory.models import Node
from console.scheduling.models import Placement
from console.telemetry.models import NodeEvent
from console.workloads.models import OfflineJob

# Beyond that it is cheaper to ask of all nodes than to name these.
NAMED: Final = 500


def generations(node_ids: Sequence[int]) -> dict[int, tuple[int, str]]:
    """Node id → generation and token hash, for those that exist; others may be
    among them."""
    nodes = Node.objects.all() if len(node_ids) > NAMED else Node.objects.filter(pk__in=node_ids)
    rows = nodes.values_list("pk", "generation", "token_sha256").order_by()
    return {pk: (generation, token_sha256) for pk, generation, token_sha256 in rows}


def of_work() -> dict[str, int]:
    """Jobs running and queued, evictions waiting and done, freezes: for the live summary."""
    live = Placement.objects.filter(state__in=[PlacementState.RUNNING, PlacementState.FROZEN])
    queued = OfflineJob.objects.filter(state=OfflineJob.State.QUEUED)
    frozen = NodeEvent.objects.filter(kind=EventKind.FROZEN)
    parts = {
        "running": live,
        "queued": queued,
        "pending_evictions": Eviction.objects.filter(state=Eviction.State.PROPOSED),
        "evictions_total": Eviction.objects.filter(state=Eviction.State.COMPLETED),
        "freezes_total": frozen,
    }
    first, *rest = (_count(name, rows) for name, rows in parts.items())
    return dict.fromkeys(parts, 0) | dict(first.union(*rest, all=True).values_list("k", "n"))


def _count(name: str, rows: QuerySet[Any]) -> QuerySet[Any, dict[str, Any]]:
    key = Value(name, CharField())
    counted: QuerySet[Any, dict[str, Any]] = (
        rows.order_by().annotate(k=key).values("k").annotate(n=Count("pk"))
    )
    return counted
