"""Rounds: all of them, and one with everything that it decided and why."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role
from console.errors import Invalid, Refused
from console.evictions.models import Eviction
from console.evictions.opened import REASONS
from console.pages import reason_of
from console.scheduling import move_plans, queries
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
    if request.htmx and request.htmx.target == "plan":
        page = RoundPage(found, request.user)
        return render(request, "scheduling/_plan.html", {"round": found, "page": page})
    return _page(request, found)


@require_POST
def plan_decide(request: SreRequest, pk: int) -> HttpResponse:
    """Approve the moves of a round, the ticked ones of them, or none; 409 when it cannot be."""
    found = get_object_or_404(Round, plan__isnull=False, pk=pk)
    try:
        word = _decide(request, pk)
    except (Refused, Invalid) as refusal:
        return _page(request, found, error=str(refusal), status=409)
    messages.success(request, word)
    return redirect("round", pk)


def _decide(request: SreRequest, pk: int) -> str:
    """What was done, as the person reads it. Raises what `move_plans` raises, and Http404."""
    reason, now = reason_of(request), timezone.now()
    kind = request.POST.get("decide", "")
    if kind == "reject":
        move_plans.reject(pk, request.user, reason, now)
        return "The plan is rejected: every job stays where it is."
    if kind not in ("approve", "trim"):
        raise Http404("approve, trim or reject")
    struck = _struck(request, pk) if kind == "trim" else set()
    plan = move_plans.approve(pk, request.user, reason, now, struck)
    left_out = f", {plan.struck} left out" if plan.struck else ""
    return f"The plan is approved{left_out}; until they are sent, each move can be undone."


def _struck(request: SreRequest, pk: int) -> set[UUID]:
    """Those that wait and were not ticked."""
    ticked = set(request.POST.getlist("move"))
    waiting = Eviction.objects.filter(round=pk, state=Eviction.State.PROPOSED)
    return {move for move in waiting.values_list("pk", flat=True) if str(move) not in ticked}


def _page(request: SreRequest, found: Round, *, error: str = "", status: int = 200) -> HttpResponse:
    page = RoundPage(found, request.user)
    show = request.GET.get("show", "")
    show = show if show in SHOW else page.first_tab()
    rows = page.decisions.filter(kind__in=SHOW[show][1]).order_by("pk")
    table = DecisionTable(request, DecisionFilter(request.GET, rows).qs, exclude=WITHOUT[show])
    context = {"round": found, "page": page, "table": table, "show": show, "error": error}
    context |= {"outcome": outcome(found), "groups": page.groups(show), "reasons": REASONS}
    return render(request, "scheduling/round.html", context, status=status)
