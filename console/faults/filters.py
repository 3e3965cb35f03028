"""How faults are narrowed in the API."""

from __future__ import annotations

import django_filters as filters
from django.db.models import Q, QuerySet

from console.faults.models import Fault
from console.lists import Filter, IdFilter, MomentFilter


class FaultFilter(Filter):
    """`job` and `service` find the faults that they caused and those that hit them."""

    pool = filters.CharFilter(field_name="gpu__node__pool__name")
    node = filters.CharFilter(field_name="gpu__node__name")
    gpu = IdFilter(field_name="gpu_id")
    job = filters.CharFilter(method="of_job", label="name of a job that caused it or was hit")
    service = filters.CharFilter(method="of_service", label="name of a service in it")
    open = filters.BooleanFilter(field_name="ended_at", lookup_expr="isnull", label="goes on")
    since = MomentFilter(field_name="seen_at", lookup_expr="gte")

    class Meta:
        model = Fault
        fields = ("pool", "node", "gpu", "job", "service", "open", "since")

    def of_job(self, rows: QuerySet[Fault], name: str, value: str) -> QuerySet[Fault]:
        return rows.filter(Q(job__name=value) | Q(jobs_hit__name=value)).distinct()

    def of_service(self, rows: QuerySet[Fault], name: str, value: str) -> QuerySet[Fault]:
        return rows.filter(Q(service__name=value) | Q(services_hit__name=value)).distinct()
