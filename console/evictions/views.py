"""The inbox, the history, one eviction, and the decisions. Each view calls a service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_list_or_404, get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from agents.wire.names import Origin, PlacementState
from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role
from console.audit import services as audit
from console.errors import Refused
from console.evictions import chart, evidence, history, inbox, opened, queries, services
from console.evictions.models import Eviction
from console.inventory.models import Gpu
from console.pages import act, dialog, reason_of
from console.scheduling.models import Placement

HISTORY_ROWS = 50


@require_GET
def evictions(request: SreRequest) -> HttpResponse:
    """The inbox with its first entry opened, a group to review, or the history."""
    if request.GET.get("view") == "history":
        return _history(request)
    if key := request.GET.get("review"):
        return _page(request, group=inbox.members(inbox.visible(request.user), key), group_key=key)
    return _page(request)


@require_GET
def eviction(request: SreRequest, pk: UUID) -> HttpResponse:
    return _page(request, _find(request, pk), chosen=True)


@require_POST
def approve(request: SreRequest, pk: UUID) -> HttpResponse:
    return _decide(request, pk, lambda why: services.approve(pk, request.user, why, timezone.now()))


@require_POST
def keep(request: SreRequest, pk: UUID) -> HttpResponse:
    return _decide(request, pk, lambda why: services.keep(pk, request.user, why, timezone.now()))


@require_POST
def undo(request: SreRequest, pk: UUID) -> HttpResponse:
    return _decide(request, pk, lambda _: services.undo(pk, request.user, timezone.now()))


@require_POST
def review(request: SreRequest) -> HttpResponse:
    """Marks the evictions named as looked at, and goes back to where the person was."""
    named = [_uuid(text) for text in request.POST.getlist("eviction")]
    found = get_list_or_404(inbox.visible(request.user), pk__in=named)

    def mark() -> None:
        services.review([one.pk for one in found], request.user, reason_of(request), timezone.now())

    return act(request, mark, "Marked as looked at.", "evictions")


@require_http_methods(["GET", "POST"])
def eviction_new(request: SreRequest, gpu_id: int) -> HttpResponse:
    """A person takes the guest off a GPU, with a reason."""
    gpu = get_object_or_404(Gpu.objects.select_related("node__pool"), pk=gpu_id)
    access.require(request.user, Role.APPROVER, gpu.node.pool)
    placement = _guest(gpu)
    if request.method == "GET":
        return dialog(request, "evictions/_new.html", opened.asking(gpu, placement))
    if placement is None:
        raise Http404(f"No offline job runs on {gpu}.")
    actor, reason = audit.person(request.user), reason_of(request)
    try:
        asked = services.request(placement, Origin.POLICY, actor, reason, timezone.now())
    except Refused as refusal:
        messages.error(request, str(refusal))
        return redirect("gpu", gpu.pk)
    return redirect("eviction", asked.pk)


@require_GET
def eviction_chart(request: SreRequest, pk: UUID) -> JsonResponse:
    found = _find(request, pk)
    service = next(iter(opened.services_on(found.gpu_id)), None)
    return JsonResponse(chart.options(found, service, timezone.now()))


# --- pages --------------------------------------------------------------------------------


def _page(
    request: SreRequest,
    found: Eviction | None = None,
    *,
    chosen: bool = False,
    error: str = "",
    group: list[Eviction] | None = None,
    group_key: str = "",
) -> HttpResponse:
    """The whole page, or the part of it that htmx asks for."""
    now = timezone.now()
    target = request.htmx.target if request.htmx else ""
    context: dict[str, Any] = {"group_key": group_key, "chosen": chosen or bool(group)}
    if target in (None, "", "inbox") or found is None:
        context["inbox"] = inbox.read(request.user, now)
        if found is None and not group:
            found = _first(context["inbox"])
    context["open_pk"] = found.pk if found else None
    if group:
        context |= opened.reviewing(group, request.user)
    elif found is not None and target != "inbox":
        context |= _facts_of(found, request.user, now)
    template = _PARTS.get(target or "", "evictions/page.html")
    status = 409 if error else 200
    return render(request, template, context | {"error": error}, status=status)


_PARTS = {
    "inbox": "evictions/_inbox.html",
    "opened": "evictions/_opened.html",
    "eviction-live": "evictions/_changed.html",
}


def _first(lists: inbox.Inbox) -> Eviction | None:
    """What a person should look at first."""
    rows = [*lists.waiting, *lists.under_way]
    return queries.load(rows[0].eviction.pk) if rows else None


def _facts_of(found: Eviction, user: Any, now: Any) -> dict[str, Any]:
    page = opened.read(found, user)
    return {
        "opened": page,
        "reasons": opened.REASONS,
        "budget": opened.budget_left(found, page.lane, now),
        "chart": _chart(page, now),
        "facts": evidence.facts(found),
    }


def _chart(page: opened.Opened, now: Any) -> dict[str, str] | None:
    if not chart.is_covered(page.eviction, now):
        return None
    signal = chart.signal_of(page.eviction, page.service)
    return {
        "heading": chart.heading(signal, page.service),
        "note": "the last ten minutes",
        "url": reverse("eviction_chart", args=[page.eviction.pk]),
    }


def _history(request: SreRequest) -> HttpResponse:
    found = history.find(inbox.visible(request.user), request.GET)
    page = Paginator(found, HISTORY_ROWS).get_page(request.GET.get("page"))
    rows = [inbox.row(one) for one in page]
    context = {"page": page, "rows": rows, **history.filters(request.GET)}
    return render(request, "evictions/history.html", context)


# --- decisions ----------------------------------------------------------------------------


def _decide(request: SreRequest, pk: UUID, decide: Callable[[str], Any]) -> HttpResponse:
    """Do it, and show the eviction as it is now; 409 with the fresh one when it could not be."""
    found = _find(request, pk)
    try:
        decide(reason_of(request))
    except Refused as refusal:
        return _page(request, _find(request, pk), chosen=True, error=str(refusal))
    if not request.htmx:
        return redirect("eviction", found.pk)
    response = _page(request, _find(request, pk), chosen=True)
    response.headers["HX-Trigger"] = "mf-evictions"
    return response


def _find(request: SreRequest, pk: UUID) -> Eviction:
    """404 when there is none, or in a pool that the person may not see."""
    mine = inbox.visible(request.user).select_related(*queries.WITH_ALL)
    return get_object_or_404(mine, pk=pk)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Http404(f"{text!r} names no eviction.") from None


def _guest(gpu: Gpu) -> Placement | None:
    live = Placement.objects.filter(gpu=gpu).exclude(state=PlacementState.ENDED)
    return live.select_related("job", "gpu__node__pool__policy__current__policy").first()
