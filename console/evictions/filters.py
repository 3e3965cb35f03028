"""How evictions are narrowed in the API."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import QuerySet

from agents.wire.names import Origin
from console.evictions import lifecycle
from console.evictions.lifecycle import State
from console.evictions.models import Eviction
from console.lists import Filter, IdFilter, MomentFilter


class EvictionFilter(Filter):
    state = filters.ChoiceFilter(choices=[(state.value, state.value) for state in State])
    origin = filters.ChoiceFilter(choices=[(origin.value, origin.value) for origin in Origin])
    open = filters.BooleanFilter(method="is_open", label="not ended yet")
    review = filters.ChoiceFilter(choices=Eviction.Review.choices)
    pool = filters.CharFilter(field_name="gpu__node__pool__name")
    node = filters.CharFilter(field_name="gpu__node__name")
    gpu = IdFilter(field_name="gpu_id")
    job = filters.CharFilter(field_name="placement__job__name")
    since = MomentFilter(field_name="proposed_at", lookup_expr="gte")

    class Meta:
        model = Eviction
        fields = ("state", "origin", "open", "review", "pool", "node", "gpu", "job", "since")

    def is_open(self, rows: QuerySet[Eviction], name: str, value: Any) -> QuerySet[Eviction]:
        if value:
            return rows.filter(state__in=lifecycle.OPEN)
        return rows.exclude(state__in=lifecycle.OPEN)
