"""The online load ahead of one GPU or service, for scripts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view, permission_classes
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import IsViewer, caller, in_sight
from console.forecasts import ahead, service_ahead
from console.forecasts.ahead import Step
from console.forecasts.scoring import Score
from console.inventory.models import Gpu
from console.workloads.models import OnlineService


class StepSerializer(serializers.Serializer[Any]):
    """One horizon, real seconds ahead: of the means over five minutes 95 % are below `high`."""

    in_s = serializers.FloatField()
    expected_percent = serializers.FloatField(source="middle", allow_null=True)
    high_percent = serializers.FloatField(source="high", allow_null=True)


class ForecastSerializer(serializers.Serializer[Any]):
    """Online SM activity that is expected. Null and no steps: nothing is foretold."""

    made_at = serializers.DateTimeField(allow_null=True)
    rests_on = serializers.CharField(allow_null=True)
    peak_percent = serializers.FloatField(allow_null=True)
    steps = StepSerializer(many=True)


class ServiceStepSerializer(serializers.Serializer[Any]):
    """One horizon, with how far the forecasts of the last day were off; null from too few."""

    in_s = serializers.FloatField()
    expected_percent = serializers.FloatField(allow_null=True)
    high_percent = serializers.FloatField(allow_null=True)
    error_points = serializers.FloatField(allow_null=True)
    below_high = serializers.FloatField(allow_null=True)
    judged = serializers.IntegerField()


class ServiceForecastSerializer(serializers.Serializer[Any]):
    """Mean online SM activity of the service's GPUs that is expected."""

    made_at = serializers.DateTimeField(allow_null=True)
    rests_on = serializers.CharField(allow_null=True)
    known_hours = serializers.IntegerField(allow_null=True)
    steps = ServiceStepSerializer(many=True)


@extend_schema(responses=ForecastSerializer)
@api_view(["GET"])
@permission_classes([IsViewer])
def gpu_forecast(request: Request, gpu_id: int) -> Response:
    """What online is expected to use of one GPU in the hour ahead."""
    if not in_sight(Gpu.objects.filter(pk=gpu_id), caller(request), "node__pool").exists():
        raise Http404
    known = ahead.load(gpu_id, timezone.now())
    told = known.outlook
    body = {
        "made_at": told and datetime.fromtimestamp(told.at, UTC),
        "rests_on": told and told.kind,
        "peak_percent": told and told.peak_percent,
        "steps": known.steps,
    }
    return Response(ForecastSerializer(body).data)


@extend_schema(responses=ServiceForecastSerializer)
@api_view(["GET"])
@permission_classes([IsViewer])
def service_forecast(request: Request, pk: int) -> Response:
    """What a service is expected to use in the hour ahead, and how good that was until now."""
    seen = in_sight(OnlineService.objects.all(), caller(request), "pool")
    told = service_ahead.load(get_object_or_404(seen, pk=pk), timezone.now())
    made = told.ahead.outlook
    body = {
        "made_at": made and datetime.fromtimestamp(made.at, UTC),
        "rests_on": made and made.kind,
        "known_hours": told.day.known_hours,
        "steps": [_step(step, score) for step, score in told.lines],
    }
    return Response(ServiceForecastSerializer(body).data)


def _step(step: Step, score: Score) -> dict[str, Any]:
    return {
        "in_s": step.in_s,
        "expected_percent": step.middle,
        "high_percent": step.high,
        "error_points": score.error_points,
        "below_high": score.below,
        "judged": score.n,
    }
