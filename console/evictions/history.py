"""All evictions that have ended, filtered by what the address says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Q, QuerySet

from agents.wire.names import Origin
from console import looks
from console.evictions import words
from console.evictions.lifecycle import OPEN, State
from console.evictions.models import Eviction

ENDS: Final = tuple(state for state in State if state not in OPEN)
ORIGINS: Final = (("", "all"), *((o.value, words.origin_word(o.value)) for o in Origin))
OUTCOMES: Final = (("", "all"), *((s.value, looks.look(s.value, "eviction").word) for s in ENDS))


def find(mine: QuerySet[Eviction], asked: Mapping[str, Any]) -> QuerySet[Eviction]:
    """Newest first. Filters: `origin`, `outcome`, `q` (part of a job's or node's name)."""
    found = mine.filter(state__in=ENDS).order_by("-ended_at", "-proposed_at")
    if asked.get("origin") in set(Origin):
        found = found.filter(origin=asked["origin"])
    if asked.get("outcome") in ENDS:
        found = found.filter(state=asked["outcome"])
    if q := str(asked.get("q", "")).strip()[:128]:
        found = found.filter(Q(placement__job__name__icontains=q) | Q(gpu__node__name__icontains=q))
    return found


def filters(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What the filter row shows."""
    return {
        "origins": ORIGINS,
        "outcomes": OUTCOMES,
        "origin": asked.get("origin", ""),
        "outcome": asked.get("outcome", ""),
        "q": asked.get("q", ""),
    }
