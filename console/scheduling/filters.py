"""How rounds, their decisions and placements are narrowed, on pages and in the API alike."""

from __future__ import annotations

import django_filters as filters
from django.db.models import Q, QuerySet

from agents.wire.names import PlacementState
from console.inventory.models import Gpu
from console.lists import Filter, IdFilter
from console.scheduling.models import AvoidEntry, Decision, Placement, Round
from console.workloads.models import OfflineJob


class RoundFilter(Filter):
    kind = filters.ChoiceFilter(choices=Round.Kind.choices)
    state = filters.ChoiceFilter(choices=Round.State.choices)

    class Meta:
        model = Round
        fields = ("kind", "state")


class DecisionFilter(Filter):
    q = filters.CharFilter(method="about", label="job or node contains")
    kind = filters.ChoiceFilter(choices=Decision.Kind.choices)
    code = filters.CharFilter()
    job = filters.UUIDFilter(field_name="job_id")
    gpu = IdFilter(method="on_gpu", label="GPU, or where its job came from")

    class Meta:
        model = Decision
        fields = ("q", "kind", "code", "job", "gpu")

    def about(self, rows: QuerySet[Decision], name: str, value: str) -> QuerySet[Decision]:
        """Each table of names is gone through once: joined, it would be looked up for each of the
        tens of thousands of decisions of a round."""
        jobs = OfflineJob.objects.filter(name__icontains=value).values("pk")
        gpus = Gpu.objects.filter(node__name__icontains=value).values("pk")
        return rows.filter(Q(job__in=jobs) | Q(gpu__in=gpus) | Q(from_gpu__in=gpus))

    def on_gpu(self, rows: QuerySet[Decision], name: str, value: int) -> QuerySet[Decision]:
        return rows.filter(Q(gpu=value) | Q(from_gpu=value))


class AvoidFilter(Filter):
    job = filters.UUIDFilter(field_name="job_id")
    gpu = IdFilter(field_name="gpu_id")

    class Meta:
        model = AvoidEntry
        fields = ("job", "gpu")


class PlacementFilter(Filter):
    state = filters.MultipleChoiceFilter(
        choices=[(state.value, state.value) for state in PlacementState]
    )
    job = filters.UUIDFilter(field_name="job_id")
    gpu = IdFilter(field_name="gpu_id")
    node = filters.CharFilter(field_name="gpu__node__name")
    pool = filters.CharFilter(field_name="gpu__node__pool__name")

    class Meta:
        model = Placement
        fields = ("state", "job", "gpu", "node", "pool")
