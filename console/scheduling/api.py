"""Rounds and placements over REST, to read: workers decide, nodes report."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from console.api import IsViewer, caller
from console.rest import PoolScoped
from console.scheduling.filters import DecisionFilter, PlacementFilter, RoundFilter
from console.scheduling.models import Decision, Placement, Round
from console.scheduling.queries import decisions_in_sight
from console.scheduling.serializers import (
    DecisionSerializer,
    PlacementSerializer,
    RoundSerializer,
)


class RoundViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[Round]):
    queryset = Round.objects.order_by("-started_at", "-pk")
    serializer_class = RoundSerializer
    permission_classes = (IsViewer,)
    filterset_class = RoundFilter

    @extend_schema(responses=DecisionSerializer(many=True), filters=False)
    @action(detail=True, filterset_class=None)
    def decisions(self, request: Request, pk: str) -> Response:
        """Every GPU and job of the round with its reason; `q`, `kind`, `code`, `job`, `gpu`."""
        rows = Decision.objects.filter(round=self.get_object()).order_by("pk")
        rows = decisions_in_sight(rows.select_related("job", "gpu__node"), caller(request))
        found = self.paginate_queryset(DecisionFilter(request.query_params, rows).qs)
        return self.get_paginated_response(DecisionSerializer(found, many=True).data)


class PlacementViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[Placement]):
    queryset = Placement.objects.select_related("job", "gpu__node").order_by("-created_at", "pk")
    serializer_class = PlacementSerializer
    filterset_class = PlacementFilter
    pool_path = "gpu__node__pool"
