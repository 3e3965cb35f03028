"""What the customer's Prometheus answered, on the page of a service."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.accounts.access import SreRequest
from console.prometheus import services
from console.prometheus.models import Answer
from console.workloads import queries
from console.workloads.models import OnlineService

SPAN: Final = timedelta(hours=1)
# Answers further apart than this are not joined: two fetches failed between them.
GAP_S: Final = 150.0
LINES: Final = 60


@require_safe
def answers(request: SreRequest, pk: int) -> HttpResponse:
    """The card on the page of a service; empty while no source is set."""
    service = get_object_or_404(queries.services(request.user), pk=pk)
    source, now = services.current(), timezone.now()
    if source is None:
        return HttpResponse("")
    rows = list(Answer.objects.filter(service=service, at__gte=now - SPAN).order_by("at"))
    context = {
        "service": service,
        "source": source,
        "lines": rows[::-1][:LINES],
        "charts": _charts(service, rows, now),
    }
    return render(request, "prometheus/_answers.html", context)


def _charts(
    service: OnlineService, rows: list[Answer], now: datetime
) -> list[tuple[str, str, str, str]]:
    """(key, name, unit, options of static/js/charts/line.js as JSON)"""
    slo = service.slo_p99_ms
    line = [{"at": slo, "label": f"SLO {slo:g} ms", "look": "slo", "side": "left"}] if slo else []
    common: dict[str, Any] = {
        "x": [row.at.timestamp() for row in rows],
        "from": (now - SPAN).timestamp(),
        "to": now.timestamp(),
        "gap_s": GAP_S,
        "range": [0, None],
        "empty": "Nothing was answered in the last hour",
    }
    p99 = [{"label": "p99", "values": [row.p99_ms for row in rows]}]
    qps = [{"label": "Load", "values": [row.qps for row in rows]}]
    drawn = [
        ("prometheus-p99", "p99", "ms", {"series": p99, "digits": 1, "thresholds": line}),
        ("prometheus-qps", "Load", "/s", {"series": qps, "digits": 0}),
    ]
    return [
        (key, name, unit, json.dumps(common | one | {"unit": unit}))
        for key, name, unit, one in drawn
    ]
