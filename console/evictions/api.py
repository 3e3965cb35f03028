"""Evictions over REST: look, decide, take back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import caller
from console.evictions import queries, services
from console.evictions.filters import EvictionFilter
from console.evictions.models import Eviction
from console.evictions.serializers import EvictionSerializer
from console.rest import PoolScoped, ReasonSerializer, reason_of


class EvictionViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[Eviction]):
    queryset = (
        Eviction.objects.select_related(*queries.WITH_ALL)
        .prefetch_related("phases")
        .order_by("-proposed_at", "pk")
    )
    serializer_class = EvictionSerializer
    filterset_class = EvictionFilter
    pool_path = "gpu__node__pool"

    @extend_schema(request=ReasonSerializer, responses=EvictionSerializer)
    @action(detail=True, methods=["post"])
    def approve(self, request: Request, pk: UUID) -> Response:
        """Evict, once the time to undo is over. 409 when somebody was first."""
        return self._decide(services.approve, request)

    @extend_schema(request=ReasonSerializer, responses=EvictionSerializer)
    @action(detail=True, methods=["post"])
    def keep(self, request: Request, pk: UUID) -> Response:
        """Keep the job running; the rule is silent for it for a while."""
        return self._decide(services.keep, request)

    @extend_schema(request=None, responses=EvictionSerializer)
    @action(detail=True, methods=["post"])
    def undo(self, request: Request, pk: UUID) -> Response:
        """Take an approval back before it was sent. 409 afterwards."""
        eviction = self.get_object()
        services.undo(eviction.pk, caller(request), timezone.now())
        return self._fresh(eviction.pk)

    @extend_schema(request=ReasonSerializer, responses=EvictionSerializer)
    @action(detail=True, methods=["post"])
    def review(self, request: Request, pk: UUID) -> Response:
        """Mark as looked at after the fact."""
        eviction = self.get_object()
        services.review([eviction.pk], caller(request), reason_of(request), timezone.now())
        return self._fresh(eviction.pk)

    def _decide(self, act: Callable[..., Any], request: Request) -> Response:
        eviction = self.get_object()
        act(eviction.pk, caller(request), reason_of(request), timezone.now())
        return self._fresh(eviction.pk)

    def _fresh(self, pk: UUID) -> Response:
        return Response(EvictionSerializer(self.get_queryset().get(pk=pk)).data)
