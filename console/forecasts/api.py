"""The online load ahead of one GPU, for scripts."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.http import Http404
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view, permission_classes
from rest_framework.request import Request
from rest_framework.response import Response

from console.api import IsViewer, caller, in_sight
from console.forecasts import ahead
from console.inventory.models import Gpu


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
