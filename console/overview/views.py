"""The cluster at a glance, and the numbers that keep it current."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents.wire.names import SharingMode
from console.accounts.access import SreRequest, allowed, missing
from console.accounts.models import Role
from console.looks import GPU, GPU_MEANING
from console.overview import attention, charts, history, outlook, queries, windows
from console.overview.queries import PoolFacts


@require_safe
def overview(request: SreRequest) -> HttpResponse:
    """The page; only its list of what needs a person when htmx asks for that."""
    if request.htmx.target == "todo":
        return render(request, "overview/_todo.html", {"todo": attention.items()})
    now = timezone.now()
    pools = queries.pools()
    series = _series(request, pools)
    modes = Counter(pool.mode for pool in pools)
    states = queries.states()
    context = series | {
        "now": now,
        "todo": attention.items(),
        "modes": [(mode, modes[mode]) for mode in reversed(SharingMode) if modes[mode]],
        "windows": [(window.key, window.word) for window in windows.WINDOWS],
        "states": [(name, GPU_MEANING[name], states[name]) for name in GPU],
        "statebar": [(name, states[name]) for name in GPU],
        "fleet": queries.fleet(),
        "jobs": queries.jobs(),
        "evictions": queries.evictions_done(now),
        "last_round": queries.last_round(),
        "table": charts.table(series["points"]),
        "outlook": None if modes[SharingMode.ENFORCE] else outlook.outlook(),
        "closed": "" if allowed(request.user, Role.OPERATOR) else missing(Role.OPERATOR),
    }
    return render(request, "overview/overview.html", context)


@require_safe
def series_json(request: SreRequest) -> JsonResponse:
    """Charts and words of one window, for a page that stays open."""
    return JsonResponse(_series(request, queries.pools())["data"])


def _series(request: SreRequest, pools: list[PoolFacts]) -> dict[str, Any]:
    now = timezone.now()
    window = windows.chosen(request.GET.get("window", ""), queries.oldest_sample(), now)
    changes = queries.sharing_changes()
    points = history.fleet(queries.samples(window, now))
    before = queries.before_sharing(changes, pools)
    words = charts.words(points, before)
    drawn = charts.charts(points, queries.marks(changes), window, now)
    return {
        "window": window,
        "points": points,
        "last": points[-1] if points else None,
        "before": before,
        "words": words,
        "data": {"charts": drawn, "words": words, "window": window.key},
    }
