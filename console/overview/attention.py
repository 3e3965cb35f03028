"""What needs a person, most pressing first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db.models import Count, Q

from agents.wire.names import GpuState, PlacementState
from console.evictions.models import Eviction
from console.faults.models import Fault
from console.inventory.models import Gpu, Node
from console.overview.scope import EVERYWHERE, Scope

# More of one kind than this are one line that leads to their list.
MOST_OF_A_KIND: Final = 4
# Nobody tells that such a fault was mended in the end, so it is not shown for longer than this.
UNMENDED_FOR: Final = timedelta(hours=24)


@dataclass(frozen=True)
class Item:
    """One line. `template` draws it from `subject`; `due` is when something happens by itself."""

    template: str
    subject: Any
    due: datetime | None = None


@dataclass(frozen=True)
class More:
    """The rest of a kind: how many, in which words, and where they are."""

    count: int
    words: str
    url_name: str


def items(now: datetime, scope: Scope = EVERYWHERE) -> list[Item]:
    """Five queries. Deadlines first, then what is broken, then what can wait."""
    broken = [*_faults(scope, now), *_nodes(scope), *_gpus(scope)]
    found = [*_evictions(scope), *broken, *_reviews(scope)]
    return sorted(found, key=lambda item: (item.due is None, item.due and item.due.timestamp()))


def _evictions(scope: Scope) -> Iterator[Item]:
    waiting = (Eviction.State.PROPOSED, Eviction.State.STUCK)
    rows = (
        Eviction.objects.filter(scope.within("gpu__node__pool"), state__in=waiting)
        .select_related("placement__job", "gpu__node", "to_gpu__node")
        .order_by("deadline_at")
    )
    yield from _capped(
        [Item("overview/_todo_eviction.html", row, row.deadline_at) for row in rows],
        "more evictions wait",
        "evictions",
    )


def _faults(scope: Scope, now: datetime) -> Iterator[Item]:
    """Online work that did not come back by itself."""
    of_online = Q(service__isnull=False) | Q(services_hit__isnull=False)
    lately = Q(ended_at__gt=now - UNMENDED_FOR)
    rows = (
        Fault.objects.filter(scope.within("gpu__node__pool"), of_online, lately, recovered_s=None)
        .select_related("gpu__node")
        .order_by("-seen_at")
        .distinct()
    )
    yield from _capped(
        [Item("overview/_todo_fault.html", row) for row in rows], "more faults", "map"
    )


def _nodes(scope: Scope) -> Iterator[Item]:
    silent = Q(state__in=[Node.State.STALE, Node.State.LOST])
    live = Q(gpus__retired_at=None)
    guests = live & Q(gpus__placements__isnull=False)
    ended = Q(gpus__placements__state=PlacementState.ENDED)
    rows = (
        Node.objects.filter(scope.within("pool"), silent | ~Q(refused=""))
        .annotate(
            gpu_count=Count("gpus", filter=live, distinct=True),
            guest_count=Count("gpus__placements", filter=guests & ~ended, distinct=True),
        )
        .order_by("state_since")
    )
    yield from _capped(
        [Item("overview/_todo_node.html", row) for row in rows], "more nodes are silent", "nodes"
    )


def _gpus(scope: Scope) -> Iterator[Item]:
    suspect = Q(state=GpuState.DISABLED, disabled=False)
    rows = (
        Gpu.objects.filter(scope.within("node__pool"), suspect | Q(conflict=True), retired_at=None)
        .exclude(node__state__in=[Node.State.STALE, Node.State.LOST])
        .select_related("node")
        .order_by("-state_since")
    )
    yield from _capped(
        [Item("overview/_todo_gpu.html", row) for row in rows], "more GPUs are suspect", "map"
    )


def _reviews(scope: Scope) -> Iterator[Item]:
    here = Eviction.objects.filter(scope.within("gpu__node__pool"))
    if wanted := here.filter(review=Eviction.Review.WANTED).count():
        yield Item("overview/_todo_review.html", wanted)


def _capped(found: list[Item], words: str, url_name: str) -> Iterator[Item]:
    yield from found[:MOST_OF_A_KIND]
    if (rest := len(found) - MOST_OF_A_KIND) > 0:
        yield Item("overview/_todo_more.html", More(rest, words, url_name))
