"""Predictors over REST: versions, promotion and roll-back, retraining, and what was observed."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import mixins, status
from rest_framework.decorators import action, api_view, permission_classes
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.viewsets import GenericViewSet

from console.accounts import access
from console.accounts.models import Role
from console.api import IsViewer, caller
from console.predictor import exchange, imports, registry, training
from console.predictor.models import PairObservation, PredictorVersion
from console.predictor.schedule import Cause
from console.predictor.serializers import (
    ChangeSerializer,
    ImportedSerializer,
    InForceSerializer,
    ObservationsSerializer,
    PredictorVersionSerializer,
)
from console.runs.serializers import RunSerializer


class VersionViewSet(
    mixins.ListModelMixin, mixins.RetrieveModelMixin, GenericViewSet[PredictorVersion]
):
    queryset = PredictorVersion.objects.defer("data").select_related("replaced")
    serializer_class = PredictorVersionSerializer
    permission_classes = (IsViewer,)
    lookup_field = "number"
    lookup_value_regex = r"\d{1,9}"

    @extend_schema(request=ChangeSerializer, responses=InForceSerializer)
    @action(detail=True, methods=["post"])
    def promote(self, request: Request, number: str) -> Response:
        """Put this version in force in place of `seen`. Needs the role policy author."""
        user = caller(request)
        registry.require_engineer(user)
        change = _change(request)
        version = self.get_object()
        registry.promote(version.number, change["seen"], user, change["reason"], timezone.now())
        return _in_force()

    @extend_schema(request=ChangeSerializer, responses=InForceSerializer)
    @action(detail=False, methods=["post"], url_path="roll-back")
    def roll_back(self, request: Request) -> Response:
        """Back to what was in force before `seen`; no version takes over by itself from then on."""
        user = caller(request)
        registry.require_engineer(user)
        change = _change(request)
        registry.roll_back(change["seen"] or 0, user, change["reason"], timezone.now())
        return _in_force()


def _change(request: Request) -> dict[str, Any]:
    body = ChangeSerializer(data=request.data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def _in_force() -> Response:
    facts = {"version": registry.active_number(), "automatic": registry.learning().automatic}
    return Response(InForceSerializer(facts).data)


@extend_schema(responses=InForceSerializer)
@api_view(["GET"])
@permission_classes([IsViewer])
def in_force(request: Request) -> Response:
    """What predicts now."""
    return _in_force()


@extend_schema(request=None, responses={202: RunSerializer})
@api_view(["POST"])
@permission_classes([IsViewer])
def retrain(request: Request) -> Response:
    """Learn a new version from what was observed; the run that is returned tells how far it is."""
    run = training.start(Cause.PERSON, caller(request), timezone.now())
    return Response(RunSerializer(run).data, status=status.HTTP_202_ACCEPTED)


@extend_schema(methods=["GET"], responses={(200, "text/csv"): OpenApiTypes.STR})
@extend_schema(
    methods=["POST"], request=ObservationsSerializer, responses={201: ImportedSerializer}
)
@api_view(["GET", "POST"])
@permission_classes([IsViewer])
def observations(request: Request) -> Response | HttpResponse:
    """All observed pairs as CSV; posting a CSV adds to them, as a whole or not at all."""
    user = caller(request)
    if request.method == "POST":
        registry.require_engineer(user)
        body = ObservationsSerializer(data=request.data)
        body.is_valid(raise_exception=True)
        written = imports.take(body.validated_data["csv"], user, timezone.now())
        answer = ImportedSerializer({"observations": written})
        return Response(answer.data, status=status.HTTP_201_CREATED)
    if not access.sees_all(user):
        raise PermissionDenied(access.missing(Role.VIEWER))
    table = exchange.text(PairObservation.objects.order_by("pk").iterator())
    return HttpResponse(table, content_type="text/csv; charset=utf-8")
