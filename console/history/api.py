"""The past over any range, for charts, scripts and spreadsheets."""

from __future__ import annotations

import csv
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

from django.db.models import Model, QuerySet
from django.http import Http404, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.decorators import api_view, permission_classes
from rest_framework.request import Request
from rest_framework.response import Response

from console.accounts.models import User
from console.api import IsViewer, caller, in_sight
from console.errors import Invalid
from console.history import kept, ranges
from console.history.points import Chart
from console.history.ranges import Scope
from console.inventory.models import Gpu, Node, Pool
from console.workloads.models import OnlineService

LONGEST_S: Final = 2 * 366 * 24 * 3_600
MOST_POINTS: Final = 4_000
# Unix seconds that a datetime can be.
_LATEST: Final = 4_102_444_800.0
_USUAL: Final = ("sm_activity", "gpu_util", "memory", "online_p99")

# What may be asked for: its rows, the way to their pool, and the scope.
_SCOPES: Final[dict[str, tuple[type[Model], str, Any]]] = {
    "gpu": (Gpu, "node__pool", ranges.Gpu),
    "node": (Node, "pool", ranges.Node),
    "pool": (Pool, "", ranges.Pool),
    "service": (OnlineService, "pool", ranges.Service),
}


class BandSerializer(serializers.Serializer[Any]):
    """One entry a point; null is a gap."""

    mean = serializers.ListField(child=serializers.FloatField(allow_null=True))
    low = serializers.ListField(child=serializers.FloatField(allow_null=True))
    high = serializers.ListField(child=serializers.FloatField(allow_null=True))


class ChartSerializer(serializers.Serializer[Any]):
    """`times` are the starts of points that are `period_s` long, in Unix seconds; `tier` says what
    was read, `samples` from how many GPU-seconds each point is, `by_receipt` whether the time of
    any of these is that of its receipt: the clock of its node was off by more than 2 s."""

    tier = serializers.CharField()
    period_s = serializers.IntegerField()
    gpus = serializers.IntegerField()
    times = serializers.ListField(child=serializers.FloatField())
    samples = serializers.ListField(child=serializers.IntegerField())
    by_receipt = serializers.ListField(child=serializers.BooleanField())
    series = serializers.DictField(child=BandSerializer())


class AskedSerializer(serializers.Serializer[Any]):
    gpu = serializers.IntegerField(min_value=1, max_value=2**62, required=False)
    node = serializers.IntegerField(min_value=1, max_value=2**62, required=False)
    pool = serializers.IntegerField(min_value=1, max_value=2**62, required=False)
    service = serializers.IntegerField(min_value=1, max_value=2**62, required=False)
    names = serializers.CharField(default=",".join(_USUAL), max_length=1_000)
    since = serializers.FloatField(min_value=0, max_value=_LATEST)
    until = serializers.FloatField(min_value=0, max_value=_LATEST)
    points = serializers.IntegerField(min_value=1, max_value=MOST_POINTS, default=ranges.POINTS)
    download = serializers.ChoiceField(choices=["csv"], required=False)


_PARAMETERS: Final = [
    OpenApiParameter(name, OpenApiTypes.INT64, description=f"Of this {name} (one of the four)")
    for name in _SCOPES
] + [
    OpenApiParameter("since", OpenApiTypes.DOUBLE, required=True, description="Unix seconds"),
    OpenApiParameter("until", OpenApiTypes.DOUBLE, required=True, description="Unix seconds"),
    OpenApiParameter("names", OpenApiTypes.STR, description=f"Of {', '.join(kept.NAMES)}"),
    OpenApiParameter("points", OpenApiTypes.INT, description="At most this many"),
    OpenApiParameter("download", OpenApiTypes.STR, enum=["csv"], description="As a file"),
]


@extend_schema(parameters=_PARAMETERS, responses=ChartSerializer)
@api_view(["GET"])
@permission_classes([IsViewer])
def history(request: Request) -> Response | StreamingHttpResponse:
    """The past of one GPU, node, pool or service, at the resolution that fits the range."""
    asked = AskedSerializer(data=request.query_params)
    asked.is_valid(raise_exception=True)
    told = asked.validated_data
    scope, names = _scope(told, caller(request)), _names(told["names"])
    chart = ranges.chart(scope, names, *_span(told), told["points"])
    if told.get("download"):
        return _file(chart, scope)
    # As ChartSerializer says, without its walk over every number, which takes longer than the rest.
    return Response(vars(chart) | {"series": {name: vars(b) for name, b in chart.series.items()}})


def _scope(told: dict[str, Any], user: User) -> Scope:
    given = [name for name in _SCOPES if name in told]
    if len(given) != 1:
        raise Invalid("Name exactly one of gpu, node, pool and service.")
    model, pool_path, scope = _SCOPES[given[0]]
    rows: QuerySet[Any] = model._default_manager.filter(pk=told[given[0]])
    if not in_sight(rows, user, pool_path).exists():
        raise Http404
    found: Scope = scope(told[given[0]])
    return found


def _names(text: str) -> list[str]:
    names = list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    if not names or (unknown := [name for name in names if name not in kept.SCALES]):
        what = f"{', '.join(unknown)} is not kept." if names else "No name is given."
        raise Invalid(f"{what} There are: {', '.join(kept.NAMES)}.", {"names": "unknown"})
    return names


def _span(told: dict[str, Any]) -> tuple[float, float]:
    since, until = told["since"], min(told["until"], time.time())
    if until <= since:
        raise Invalid("`until` must be after `since`, which must be in the past.")
    if until - since > LONGEST_S:
        raise Invalid("The range is longer than two years, which is all that is kept.")
    return since, until


def _file(chart: Chart, scope: Scope) -> StreamingHttpResponse:
    name = f"{type(scope).__name__.lower()}-{scope.id}-{chart.period_s}s.csv"
    return StreamingHttpResponse(
        _lines(chart),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )


class _Echo:
    """What csv writes comes back as it is."""

    def write(self, line: str) -> str:
        return line


def _lines(chart: Chart) -> Iterator[str]:
    """An empty cell is a gap."""
    write = csv.writer(_Echo()).writerow
    bands = list(chart.series.items())
    heads = [f"{name}_{which}" for name, _ in bands for which in ("mean", "low", "high")]
    yield write(["at", "samples", "by_receipt", *heads])
    for point, at in enumerate(chart.times):
        values = [one[point] for _, band in bands for one in (band.mean, band.low, band.high)]
        moment = datetime.fromtimestamp(at, UTC).isoformat()
        dated = int(chart.by_receipt[point]) if chart.samples[point] else None
        yield write([moment, chart.samples[point], dated, *values])
