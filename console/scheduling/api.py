"""Rounds, their plans and placements over REST: workers decide, people approve, nodes report."""

from __future__ import annotations

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import mixins
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from console.api import IsViewer, caller
from console.rest import PoolScoped, ReasonSerializer, reason_of
from console.scheduling import avoid, move_plans
from console.scheduling.filters import AvoidFilter, DecisionFilter, PlacementFilter, RoundFilter
from console.scheduling.models import AvoidEntry, Decision, MovePlan, Placement, Round
from console.scheduling.queries import decisions_in_sight
from console.scheduling.serializers import (
    AvoidSerializer,
    DecisionSerializer,
    PlacementSerializer,
    PlanDecisionSerializer,
    PlanSerializer,
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

    @extend_schema(responses=PlanSerializer)
    @action(detail=True, filterset_class=None)
    def plan(self, request: Request, pk: str) -> Response:
        """Its moves as one plan; 404 when it proposed none."""
        return self._plan(request)

    @extend_schema(request=PlanDecisionSerializer, responses=PlanSerializer)
    @plan.mapping.post
    def approve_plan(self, request: Request, pk: str) -> Response:
        """Approve the plan, without the moves under `strike`. 409 when somebody was first."""
        told = PlanDecisionSerializer(data=request.data)
        told.is_valid(raise_exception=True)
        reason, strike = told.validated_data["reason"], told.validated_data["strike"]
        round = self.get_object()
        self._plan(request)
        move_plans.approve(round.pk, caller(request), reason, timezone.now(), strike)
        return self._plan(request)

    @extend_schema(request=ReasonSerializer, responses=PlanSerializer)
    @action(detail=True, methods=["post"], filterset_class=None)
    def reject_plan(self, request: Request, pk: str) -> Response:
        """Every job stays where it is. 409 when somebody was first."""
        round = self.get_object()
        self._plan(request)
        move_plans.reject(round.pk, caller(request), reason_of(request), timezone.now())
        return self._plan(request)

    def _plan(self, request: Request) -> Response:
        found = MovePlan.objects.select_related("decided_by")
        plan = get_object_or_404(found, round=self.get_object())
        return Response(PlanSerializer(plan, context={"user": caller(request)}).data)


class AvoidViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[AvoidEntry]):
    """Which job does not go to which GPU, and until when."""

    queryset = AvoidEntry.objects.select_related("job", "gpu__node__pool").order_by("-pk")
    serializer_class = AvoidSerializer
    filterset_class = AvoidFilter
    pool_path = "gpu__node__pool"

    def get_queryset(self) -> QuerySet[AvoidEntry]:
        return super().get_queryset().filter(expires_at__gt=timezone.now(), lifted_at=None)

    @extend_schema(request=ReasonSerializer, responses={204: None})
    @action(detail=True, methods=["post"])
    def lift(self, request: Request, pk: str) -> Response:
        """Let the next round place the job there again. 409 when it is over already."""
        avoid.lift(self.get_object(), caller(request), reason_of(request), timezone.now())
        return Response(status=204)


class PlacementViewSet(mixins.ListModelMixin, mixins.RetrieveModelMixin, PoolScoped[Placement]):
    queryset = Placement.objects.select_related("job", "gpu__node").order_by("-created_at", "pk")
    serializer_class = PlacementSerializer
    filterset_class = PlacementFilter
    pool_path = "gpu__node__pool"
