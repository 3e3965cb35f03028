"""Rounds: all of them, and one with everything that it decided and why."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import require_GET

from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role
from console.scheduling import queries
from console.scheduling.filters import DecisionFilter, RoundFilter
from console.scheduling.models import Round
from console.scheduling.queries import SHOW, RoundPage
from console.scheduling.tables import WITHOUT, DecisionTable, RoundTable, outcome

KINDS = [("", "All"), *((kind.value, kind.label) for kind in Round.Kind)]


@require_GET
def rounds(request: SreRequest) -> HttpResponse:
    access.require(request.user, Role.VIEWER)
    found = RoundFilter(request.GET, Round.objects.all())
    kind = request.GET.get("kind", "")
    last = found.qs.filter(state=Round.State.DONE).order_by("-started_at").first()
    context = {
        "table": RoundTable(request, found.qs),
        "kind": kind if kind in Round.Kind.values else "",
        "kinds": KINDS,
        "charts": queries.charts(kind if kind in Round.Kind.values else ""),
        "last": last,
        "took_s": queries.took_s(last) if last else None,
        "solve_ms": queries.phase_ms(last, "solve") if last else None,
    }
    return render(request, "scheduling/rounds.html", context)


@require_GET
def round(request: SreRequest, pk: int) -> HttpResponse:
    access.require(request.user, Role.VIEWER)
    found = get_object_or_404(Round, pk=pk)
    page = RoundPage(found, request.user)
    show = request.GET.get("show", "")
    show = show if show in SHOW else page.first_tab()
    rows = page.decisions.filter(kind__in=SHOW[show][1]).order_by("pk")
    table = DecisionTable(request, DecisionFilter(request.GET, rows).qs, exclude=WITHOUT[show])
    context = {"round": found, "page": page, "table": table, "show": show}
    context |= {"outcome": outcome(found), "groups": page.groups(show)}
    return render(request, "scheduling/round.html", context)
