"""How lists of services and jobs are narrowed, on pages and in the API alike."""

from __future__ import annotations

import django_filters as filters
from django.db.models import Q, QuerySet
from django.utils import timezone

from agents.wire.names import PlacementState
from console.lists import Filter, IdFilter
from console.workloads.holds import not_held
from console.workloads.models import OfflineJob, OnlineInstance, OnlineService


class ServiceFilter(Filter):
    q = filters.CharFilter(field_name="name", lookup_expr="icontains", label="name contains")
    pool = filters.CharFilter(field_name="pool__name")
    team = filters.CharFilter(field_name="team__name")
    tier = IdFilter()

    class Meta:
        model = OnlineService
        fields = ("q", "pool", "team", "tier")


class InstanceFilter(Filter):
    service = filters.CharFilter(field_name="service__name")
    gpu = IdFilter(field_name="gpu_id")
    node = filters.CharFilter(field_name="gpu__node__name")

    class Meta:
        model = OnlineInstance
        fields = ("service", "gpu", "node")


class JobFilter(Filter):
    q = filters.CharFilter(field_name="name", lookup_expr="icontains", label="name contains")
    state = filters.MultipleChoiceFilter(choices=OfflineJob.State.choices)
    team = filters.CharFilter(field_name="team__name")
    pool = filters.CharFilter(method="in_pool", label="runs in this pool")
    owner = filters.CharFilter(field_name="owner__username")
    profile = filters.MultipleChoiceFilter(
        field_name="profile_source", choices=OfflineJob.ProfileSource.choices
    )
    proven = filters.BooleanFilter(field_name="proven_at", lookup_expr="isnull", exclude=True)
    held = filters.BooleanFilter(method="is_held", label="held for its faults")

    class Meta:
        model = OfflineJob
        fields = ("q", "state", "team", "pool", "owner", "profile", "proven", "held")

    def is_held(self, rows: QuerySet[OfflineJob], name: str, value: bool) -> QuerySet[OfflineJob]:
        free = not_held(timezone.now())
        return rows.exclude(free) if value else rows.filter(free)

    def in_pool(self, rows: QuerySet[OfflineJob], name: str, value: str) -> QuerySet[OfflineJob]:
        live = ~Q(placements__state=PlacementState.ENDED)
        return rows.filter(live, placements__gpu__node__pool__name=value).distinct()
