"""How the audit is narrowed, on its page and in the API alike."""

from __future__ import annotations

from typing import Any

import django_filters as filters
from django.db.models import Q, QuerySet

from console.audit.models import Entry
from console.lists import Filter, MomentFilter


class EntryFilter(Filter):
    q = filters.CharFilter(method="search", label="object, reason or action contains")
    actor = filters.CharFilter(field_name="actor", lookup_expr="icontains")
    action = filters.CharFilter(field_name="action", lookup_expr="startswith")
    object_type = filters.CharFilter()
    object_id = filters.CharFilter()
    cause = filters.UUIDFilter(field_name="cause_id")
    since = MomentFilter(field_name="at", lookup_expr="gte")
    until = MomentFilter(field_name="at", lookup_expr="lte")

    class Meta:
        model = Entry
        fields = ("q", "actor", "action", "object_type", "object_id", "cause", "since", "until")

    def search(self, entries: QuerySet[Entry], name: str, value: Any) -> QuerySet[Entry]:
        return entries.filter(
            Q(object_name__icontains=value)
            | Q(reason__icontains=value)
            | Q(action__icontains=value)
            | Q(actor__icontains=value)
        )
