"""Rounds: all of them, and one with everything that it decided and why."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role
from console.errors import Invalid, Refused
from console.evictions.models import Eviction
from console.evictions.opened import REASONS
from console.pages import act, dialog, reason_of
from console.scheduling import asking, avoid, move_plans, queries
from console.scheduling.filters import DecisionFilter, RoundFilter
from console.scheduling.models import AvoidEntry, MovePlan, Round
from console.scheduling.queries import SHOW, RoundPage
from console.scheduling.tables import WITHOUT, DecisionTable, RoundTable, outcome

WHY_LIFT = (
    ("The neighbour is gone", "The neighbour is gone"),
    ("It was not its fault", "It was not its fault"),
    ("Trial", "Trial"),
)
STATES = [
    ("", "All"),
    (Round.State.DONE.value, "Decided"),
    (Round.State.SKIPPED.value, "Skipped"),
    (Round.State.FAILED.value, "Failed"),
]
KINDS = [("", "All"), *((kind.value, kind.label) for kind in Round.Kind)]


@require_GET
def rounds(request: SreRequest) -> HttpResponse:
    access.require(request.user, Role.VIEWER)
    found = RoundFilter(request.GET, Round.objects.all())
    kind = request.GET.get("kind", "")
    last = found.qs.filter(state=Round.State.DONE).order_by("-started_at").first()
    context = {
        "table": RoundTable(request, queries.beside_the_last(found.qs)),
        "kind": kind if kind in Round.Kind.values else "",
        "kinds": KINDS,
        "state": request.GET.get("state", ""),
        "states": STATES,
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
        get_object_or_404(MovePlan, round=found)
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


@require_http_methods(["GET", "POST"])
def why_not(request: SreRequest) -> HttpResponse:
    """Choose a job and a GPU, ask, and read the answer once a worker has it."""
    access.require(request.user, Role.VIEWER)
    if request.method == "POST":
        return _ask(request)
    asked = _asked(request)
    if request.htmx and request.htmx.target == "answer":
        if asked is None:
            raise Http404("No such question.")
        return render(request, "scheduling/_answer.html", {"asked": asked})
    return _why_not(request, asked=asked)


def _asked(request: SreRequest) -> asking.Answer | None:
    named = request.GET.get("asked")
    return asking.find(_uuid(named), request.user) if named else None


def _ask(request: SreRequest) -> HttpResponse:
    job, gpu = (request.POST.get(name, "") for name in ("job", "gpu"))
    try:
        run = asking.ask(
            asking.job_named(job, request.user),
            asking.gpu_named(gpu, request.user),
            request.user,
            timezone.now(),
        )
    except Invalid as error:
        return _why_not(request, job=job, gpu=gpu, error=str(error), status=422)
    return redirect(f"{reverse('why_not')}?asked={run.pk}")


def _why_not(
    request: SreRequest,
    *,
    asked: asking.Answer | None = None,
    job: str = "",
    gpu: str = "",
    error: str = "",
    status: int = 200,
) -> HttpResponse:
    typed = {"job": job or request.GET.get("job", ""), "gpu": gpu or request.GET.get("gpu", "")}
    if asked:
        typed = {"job": str(asked.job or ""), "gpu": str(asked.gpu or "")}
    context = {**typed, "asked": asked, "error": error} | asking.suggestions(request.user)
    return render(request, "scheduling/why_not.html", context, status=status)


@require_http_methods(["GET", "POST"])
def avoid_lift(request: SreRequest, pk: int) -> HttpResponse:
    """First what it would do, then let rounds place the job there again."""
    rows = AvoidEntry.objects.select_related("job", "gpu__node__pool")
    entry = get_object_or_404(rows, pk=pk)
    access.require(request.user, Role.OPERATOR, entry.gpu.node.pool)
    if request.method == "GET":
        title = f"Let {entry.job} back on {entry.gpu}"
        context = {"title": title, "entry": entry, "reasons": WHY_LIFT}
        return dialog(request, "scheduling/_lift_avoid.html", context)
    return act(
        request,
        lambda: avoid.lift(entry, request.user, reason_of(request), timezone.now()),
        f"The next round may place {entry.job} on {entry.gpu} again.",
        f"/jobs/{entry.job_id}/",
    )


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404(f"{text!r} names nothing.") from None
