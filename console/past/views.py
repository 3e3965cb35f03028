"""The charts of a range of the past, as a card of the pages of GPU, node, pool and service."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any
from urllib.parse import urlencode

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.views.decorators.http import require_safe

from agents.wire.names import Signal
from console.accounts.access import SreRequest
from console.api import in_sight
from console.history import ranges
from console.history.ranges import Scope
from console.inventory.models import Node, Pool
from console.past import cards
from console.past.cards import Drawn, Span
from console.telemetry import charts
from console.telemetry.views import passport_of
from console.workloads.queries import services


@dataclass(frozen=True)
class Subject:
    """Whose past, where its own page is, and which charts it gets."""

    scope: Scope
    name: str
    page: str
    drawn: Sequence[Drawn]
    thresholds: dict[str, list[dict[str, Any]]]
    gpu: int | None = None


@require_safe
def past(request: SreRequest, kind: str, owner: int) -> HttpResponse:
    """The card, for htmx; else a page with nothing but it."""
    subject = _subject(request, kind, owner)
    oldest = ranges.oldest(subject.scope)
    span = cards.span(request.GET.get("past", ""), oldest, time.time())
    names = [one.name for one in subject.drawn]
    chart = ranges.chart(subject.scope, names, span.start, span.end)
    span = cards.trimmed(span, chart)
    marks = charts.marks_between(subject.gpu, *_moments(span)) if subject.gpu else []
    marks = sorted([*marks, *cards.clock_marks(chart)], key=itemgetter("at"))
    context = {
        "subject": subject,
        "kind": kind,
        "owner": owner,
        "span": span,
        "began": None if span.began is None else datetime.fromtimestamp(span.began, UTC),
        "ranges": [
            (value, word, f"{subject.page}?past={value}")
            for value, (_, word) in cards.RANGES.items()
        ],
        "cards": cards.cards(chart, subject.drawn, span, subject.thresholds, marks),
        "lines": cards.lines(chart, subject.drawn),
        "resolution": cards.resolution(chart),
        "clock": cards.clock(chart),
        "chart": chart,
        "file": _file(kind, owner, names, span),
    }
    template = "past/_card.html" if request.htmx else "past/page.html"
    return render(request, template, context)


def _moments(span: Span) -> tuple[datetime, datetime]:
    return datetime.fromtimestamp(span.start, UTC), datetime.fromtimestamp(span.end, UTC)


def _file(kind: str, owner: int, names: Sequence[str], span: Span) -> str:
    within = {"since": int(span.start), "until": int(span.end)}
    asked = {kind: owner, "names": ",".join(names), **within}
    return f"{reverse('api_history')}?{urlencode({**asked, 'download': 'csv'})}"


def _subject(request: SreRequest, kind: str, owner: int) -> Subject:
    makers = {"gpu": _gpu, "node": _node, "pool": _pool, "service": _service}
    if kind not in makers:
        raise Http404("There is a past of a gpu, a node, a pool or a service.")
    return makers[kind](request, owner)


def _gpu(request: SreRequest, owner: int) -> Subject:
    known = passport_of(request, owner)
    shown = {one.name for one in cards.OF_GPU}
    thresholds = {
        str(scale.signal.value): charts.thresholds(scale)
        for scale in known.scales
        if scale.signal.value in shown
    }
    page = reverse("gpu", args=[owner])
    return Subject(ranges.Gpu(owner), str(known.gpu), page, cards.OF_GPU, thresholds, owner)


def _node(request: SreRequest, owner: int) -> Subject:
    node = get_object_or_404(in_sight(Node.objects.all(), request.user, "pool"), pk=owner)
    page = reverse("node", args=[node.name])
    return Subject(ranges.Node(owner), node.name, page, cards.OF_MANY, {})


def _pool(request: SreRequest, owner: int) -> Subject:
    pool = get_object_or_404(in_sight(Pool.objects.all(), request.user, ""), pk=owner)
    page = reverse("past", args=["pool", owner])
    return Subject(ranges.Pool(owner), pool.name, page, cards.OF_MANY, {})


def _service(request: SreRequest, owner: int) -> Subject:
    service = get_object_or_404(services(request.user), pk=owner)
    slo = service.slo_p99_ms
    line = [{"at": slo, "label": f"SLO {slo:g} ms", "look": "slo", "side": "left"}] if slo else []
    page = reverse("service", args=[owner])
    thresholds = {Signal.ONLINE_P99.value: line}
    return Subject(ranges.Service(owner), service.name, page, cards.OF_SERVICE, thresholds)
