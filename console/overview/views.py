"""The cluster at a glance, and the numbers that keep it current."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents.wire.names import SharingMode
from console.accounts.access import SreRequest, allowed, missing, sees_all
from console.accounts.models import Role, User
from console.looks import GPU, GPU_MEANING
from console.overview import attention, charts, history, outlook, queries, scope, windows
from console.overview.history import FleetPoint
from console.overview.scope import PoolFacts, Scope
from console.overview.windows import Window


@require_safe
def overview(request: SreRequest) -> HttpResponse:
    """The page, or the part of it that htmx asks for by its id."""
    view = _view(request)
    if part := PARTS.get(request.htmx.target or ""):
        template, read = part
        return render(request, template, read(view))
    now, states, past = timezone.now(), queries.states(view.scope), _past(view, timezone.now())
    context = past | {
        "scope": view.scope,
        "scopes": scope.options(view.pools, sees_all=view.sees_all),
        "window": view.window,
        "windows": [(window.key, window.word) for window in windows.WINDOWS],
        "states": [(name, GPU_MEANING[name], states[name]) for name in GPU],
        "statebar": [(name, states[name]) for name in GPU],
        "fleet": queries.fleet(view.scope),
        "jobs": queries.jobs(view.scope),
        "evictions": queries.evictions_done(now, view.scope),
        "sources": queries.sources(view.scope),
        "table": charts.table(past["points"]),
    }
    for _, read in PARTS.values():
        context |= read(view)
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

    user: User
    pools: list[PoolFacts]
    scope: Scope
    window: Window

    @property
    def sees_all(self) -> bool:
        return self.scope.seen is None


def _todo(view: View) -> dict[str, Any]:
    return {"todo": attention.items(timezone.now(), view.scope)}


def _last_round(view: View) -> dict[str, Any]:
    return {"last_round": queries.last_round()}


def _sharing(view: View) -> dict[str, Any]:
    modes = Counter(pool.mode for pool in view.pools)
    return {
        "modes": [(mode, modes[mode]) for mode in reversed(SharingMode) if modes[mode]],
        "outlook": None if modes[SharingMode.ENFORCE] else outlook.outlook(view.scope.whole),
        "closed": "" if allowed(view.user, Role.OPERATOR) else missing(Role.OPERATOR),
    }


# What a page that stays open reads again, by the id of the element.
PARTS: Final[Mapping[str, tuple[str, Callable[[View], dict[str, Any]]]]] = {
    "todo": ("overview/_todo.html", _todo),
    "last-round": ("overview/_last_round.html", _last_round),
    "sharing": ("overview/_sharing.html", _sharing),
}


def _view(request: SreRequest) -> View:
    pools, every = queries.pools(request.user), sees_all(request.user)
    key, now = request.GET.get("window", ""), timezone.now()
    return View(
        request.user,
        pools,
        scope.chosen(request.GET.get("pool", ""), pools, sees_all=every),
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
        "data": {
            "charts": drawn,
            "words": words,
            "before": charts.before(before),
            "window": view.window.key,
        },
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
