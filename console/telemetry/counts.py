"""The two questions that every web process asks the database again and again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.db.models import CharField, Count, Q, QuerySet, Value

from agents.wire.names import EventKind, PlacementState
from console.evictions.models import Eviction
from console.inventory.models import Node, Pool
from console.scheduling.models import Placement
from console.telemetry.models import NodeEvent
from console.telemetry.view import EVERYTHING, Sight
from console.workloads.models import OfflineJob
from console.workloads.wanted_pools import for_pools

# Beyond that it is cheaper to ask of all nodes than to name these.
NAMED: Final = 500


def generations(node_ids: Sequence[int]) -> dict[int, tuple[int, str]]:
    """Node id → generation and token hash, for those that exist; others may be
    among them."""
    nodes = Node.objects.all() if len(node_ids) > NAMED else Node.objects.filter(pk__in=node_ids)
    rows = nodes.values_list("pk", "generation", "token_sha256").order_by()
    return {pk: (generation, token_sha256) for pk, generation, token_sha256 in rows}


def of_work(pools: Sight = EVERYTHING) -> dict[str, int]:
    """Jobs running and queued, evictions waiting and done, freezes: for the live summary of those
    who see these pools."""
    on_gpu, on_node = _within("gpu__node__pool", pools), _within("node__pool", pools)
    live = Placement.objects.filter(state__in=[PlacementState.RUNNING, PlacementState.FROZEN])
    evictions = Eviction.objects.filter(on_gpu)
    parts: dict[str, QuerySet[Any]] = {
        "running": live.filter(on_gpu),
        "queued": OfflineJob.objects.filter(_may_come(pools), state=OfflineJob.State.QUEUED),
        "pending_evictions": evictions.filter(state=Eviction.State.PROPOSED),
        "evictions_total": evictions.filter(state=Eviction.State.COMPLETED),
        "freezes_total": NodeEvent.objects.filter(on_node, kind=EventKind.FROZEN),
    }
    first, *rest = (_count(name, rows) for name, rows in parts.items())
    return dict.fromkeys(parts, 0) | dict(first.union(*rest, all=True).values_list("k", "n"))


def _within(path: str, pools: Sight) -> Q:
    return Q() if pools is None else Q(**{f"{path}__in": pools})


def _may_come(pools: Sight) -> Q:
    if pools is None:
        return Q()
    return for_pools(Pool.objects.filter(pk__in=pools).values_list("name", flat=True))


def _count(name: str, rows: QuerySet[Any]) -> QuerySet[Any, dict[str, Any]]:
    key = Value(name, CharField())
    counted: QuerySet[Any, dict[str, Any]] = (
        rows.order_by().annotate(k=key).values("k").annotate(n=Count("pk"))
    )
    return counted
