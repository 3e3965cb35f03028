"""The cluster at a glance, and the numbers that keep it current."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents.wire.names import SharingMode
from console.accounts.access import SreRequest, allowed, missing
from console.accounts.models import Role
from console.looks import GPU, GPU_MEANING
from console.overview import attention, charts, history, outlook, queries, scope, windows
from console.overview.history import FleetPoint
from console.overview.scope import PoolFacts, Scope
from console.overview.windows import Window


@require_safe
def overview(request: SreRequest) -> HttpResponse:
    """The page; only its list of what needs a person when htmx asks for that."""
    now, view = timezone.now(), _view(request)
    todo = attention.items(view.scope)
    if request.htmx.target == "todo":
        return render(request, "overview/_todo.html", {"todo": todo})
    modes = Counter(pool.mode for pool in view.pools)
    states = queries.states(view.scope)
    past = _past(view, now)
    context = past | {
        "todo": todo,
        "scope": view.scope,
        "scopes": scope.options(view.pools),
        "modes": [(mode, modes[mode]) for mode in reversed(SharingMode) if modes[mode]],
        "window": view.window,
        "windows": [(window.key, window.word) for window in windows.WINDOWS],
        "states": [(name, GPU_MEANING[name], states[name]) for name in GPU],
        "statebar": [(name, states[name]) for name in GPU],
        "fleet": queries.fleet(view.scope),
        "jobs": queries.jobs(view.scope),
        "evictions": queries.evictions_done(now, view.scope),
        "last_round": queries.last_round(),
        "table": charts.table(past["points"]),
        "outlook": None if modes[SharingMode.ENFORCE] else outlook.outlook(),
        "closed": "" if allowed(request.user, Role.OPERATOR) else missing(Role.OPERATOR),
    }
    return render(request, "overview/overview.html", context)


@require_safe
def series_json(request: SreRequest) -> JsonResponse:
    """Charts and words of one window, for a page that stays open.

    The live feed tells of the whole fleet only; for one pool the present counts come with it.
    """
    view = _view(request)
    past = _past(view, timezone.now())
    now = _present(view.scope, past["last"]) if view.scope.pool else {}
    return JsonResponse(past["data"] | {"now": now})


@dataclass(frozen=True)
class View:
    """What the address asks for."""

    pools: list[PoolFacts]
    scope: Scope
    window: Window


def _view(request: SreRequest) -> View:
    pools = queries.pools()
    key, now = request.GET.get("window", ""), timezone.now()
    return View(
        pools,
        scope.chosen(request.GET.get("pool", ""), pools),
        windows.chosen(key, queries.oldest_sample(), now),
    )


def _past(view: View, now: datetime) -> dict[str, Any]:
    changes = queries.sharing_changes(view.scope)
    points = history.fleet(queries.samples(view.window, now, view.scope))
    before = queries.before_sharing(changes, view.pools)
    words = charts.words(points, before)
    drawn = charts.charts(points, queries.marks(changes), view.window, now)
    return {
        "points": points,
        "last": points[-1] if points else None,
        "before": before,
        "words": words,
        "data": {"charts": drawn, "words": words, "window": view.window.key},
    }


def _present(within: Scope, last: FleetPoint | None) -> dict[str, Any]:
    """Under the names that the live summary uses."""
    fleet = queries.fleet(within)
    return {
        "states": queries.states(within),
        "gpus": fleet.gpus,
        "sharing": fleet.sharing,
        **queries.jobs(within),
        **(charts.present(last) if last else {}),
    }
