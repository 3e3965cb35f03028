"""Faults over REST."""

from __future__ import annotations

from rest_framework import mixins

from console.faults import queries
from console.faults.filters import FaultFilter
from console.faults.models import Fault
from console.faults.serializers import GpuFaultSerializer
from console.rest import PoolScoped


class FaultViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[Fault]):
    """Faults of processes on a GPU, with whom they reached, newest first."""

    queryset = (
        Fault.objects.select_related(*queries.WITH_ALL)
        .prefetch_related("jobs_hit", "services_hit")
        .order_by("-seen_at", "pk")
    )
    serializer_class = GpuFaultSerializer
    filterset_class = FaultFilter
    pool_path = "gpu__node__pool"
