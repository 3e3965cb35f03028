"""How lists of the inventory are narrowed, on pages and in the API alike."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import Q, QuerySet

from agents.wire.names import GpuState, SharingMode
from console.inventory.models import Gpu, Node, SharingChange
from console.lists import Filter, IdFilter


class NodeFilter(Filter):
    q = filters.CharFilter(field_name="name", lookup_expr="icontains", label="name contains")
    pool = filters.CharFilter(field_name="pool__name")
    state = filters.ChoiceFilter(choices=Node.State.choices)
    source = filters.ChoiceFilter(choices=Node.Source.choices)
    cordoned = filters.BooleanFilter()
    draining = filters.BooleanFilter()

    class Meta:
        model = Node
        fields = ("q", "pool", "state", "source", "cordoned", "draining")


class GpuFilter(Filter):
    q = filters.CharFilter(method="search", label="node or UUID contains")
    pool = filters.CharFilter(field_name="node__pool__name")
    node = filters.CharFilter(field_name="node__name")
    model = filters.CharFilter()
    state = filters.ChoiceFilter(choices=[(state.value, state.value) for state in GpuState])
    sharing_mode = filters.ChoiceFilter(choices=[(m.value, m.value) for m in SharingMode])
    retired = filters.BooleanFilter(
        field_name="retired_at", lookup_expr="isnull", exclude=True, label="replaced by another"
    )

    class Meta:
        model = Gpu
        fields = ("q", "pool", "node", "model", "state", "sharing_mode", "retired")

    def search(self, rows: QuerySet[Gpu], name: str, value: str) -> QuerySet[Gpu]:
        return rows.filter(Q(node__name__icontains=value) | Q(uuid__icontains=value))


class SharingChangeFilter(Filter):
    pool = filters.CharFilter(field_name="pool__name")
    gpu = IdFilter(field_name="gpu_id")

    class Meta:
        model = SharingChange
        fields: tuple[Any, ...] = ("pool", "gpu")
