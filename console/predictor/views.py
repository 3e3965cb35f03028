"""The predictor: what is in force, how well it does, its versions, and learning the next one."""

from __future__ import annotations

from typing import Final

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role
from console.errors import Invalid
from console.pages import act, dialog, reason_of
from console.predictor import exchange, imports, registry, schedule, training
from console.predictor.models import PairObservation, PredictorVersion
from console.predictor.queries import KIND, PredictorPage
from console.predictor.schedule import Cause
from console.runs import services as runs
from console.runs.models import Run

REASONS: Final = [
    ("Better on its hold-out", "Better on its hold-out"),
    ("Predicts badly now", "Predicts badly now"),
    ("To compare", "To compare"),
]


@require_GET
def predictor(request: SreRequest) -> HttpResponse:
    access.require(request.user, Role.VIEWER)
    page, asks_how_far = PredictorPage(), request.htmx.target == "learning"
    if asks_how_far and request.GET.get("was") == "learning" and not page.is_learning:
        return HttpResponse(headers={"HX-Refresh": "true"})  # all figures may have changed
    context = {"page": page, "closed": _closed(request), "why_not": _why_not(page)}
    template = "predictor/_learning.html" if asks_how_far else "predictor/predictor.html"
    return render(request, template, context)


def _closed(request: SreRequest) -> str:
    """Why this person cannot change anything here; "" when they can."""
    try:
        registry.require_engineer(request.user)
    except PermissionDenied as error:
        return str(error)
    return ""


def _why_not(page: PredictorPage) -> str:
    """Why nothing can be trained now; "" when it can."""
    return page.learning.no_trainer or schedule.why_not(training.facts())


@require_POST
def retrain(request: SreRequest) -> HttpResponse:
    return act(
        request,
        lambda: training.start(Cause.PERSON, request.user, timezone.now()),
        "The training has begun. You can leave this page and find it again.",
        "predictor",
    )


@require_POST
def stop(request: SreRequest) -> HttpResponse:
    """Stop the training that is under way."""
    registry.require_engineer(request.user)
    run = get_object_or_404(Run, kind=KIND, state__in=runs.OPEN)
    return act(
        request,
        lambda: runs.cancel(run, request.user, timezone.now()),
        "The training stops at its next step.",
        "predictor",
    )


@require_POST
def automatic(request: SreRequest) -> HttpResponse:
    wanted = request.POST.get("automatic") == "on"
    return act(
        request,
        lambda: registry.set_automatic(wanted, request.user, timezone.now()),
        "Better versions take over by themselves."
        if wanted
        else "No version takes over by itself.",
        "predictor",
    )


@require_http_methods(["GET", "POST"])
def promote(request: SreRequest, number: int) -> HttpResponse:
    version = get_object_or_404(PredictorVersion.objects.defer("data"), number=number)
    registry.require_engineer(request.user)
    if request.method == "POST":
        return act(
            request,
            lambda: registry.promote(
                number, _seen(request), request.user, reason_of(request), timezone.now()
            ),
            f"Version {number} is in force from the next round on.",
            "predictor",
        )
    context = {"version": version, "active": registry.active(), "reasons": REASONS}
    return dialog(request, "predictor/_promote.html", context)


@require_http_methods(["GET", "POST"])
def roll_back(request: SreRequest) -> HttpResponse:
    registry.require_engineer(request.user)
    if request.method == "POST":
        return act(
            request,
            lambda: registry.roll_back(
                _seen(request) or 0, request.user, reason_of(request), timezone.now()
            ),
            "Rolled back. From now on no version takes over by itself.",
            "predictor",
        )
    active = registry.active()
    context = {"active": active, "before": registry.before(active), "reasons": REASONS[1:]}
    return dialog(request, "predictor/_back.html", context)


def _seen(request: SreRequest) -> int | None:
    """The version that the person saw in force; None: the estimate. Raises Invalid."""
    told = request.POST.get("seen", "")
    if told and not told.isdecimal():
        raise Invalid("Open the dialog again: it did not say what is in force.")
    return int(told) if told else None


@require_GET
def observations(request: SreRequest) -> HttpResponse:
    """All observations as CSV, as docs/prediction.md has it."""
    access.require(request.user, Role.VIEWER)
    if not access.sees_all(request.user):
        raise PermissionDenied(access.missing(Role.VIEWER))
    table = exchange.text(PairObservation.objects.order_by("pk").iterator())
    answer = HttpResponse(table, content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="observations.csv"'
    return answer


@require_POST
def import_observations(request: SreRequest) -> HttpResponse:
    registry.require_engineer(request.user)
    upload = request.FILES.get("file")
    if upload is None or upload.size is None or upload.size > exchange.MOST_CHARS:
        messages.error(request, f"Choose a CSV file of up to {exchange.MOST_CHARS >> 20} MiB.")
        return redirect("predictor")
    text = upload.read().decode("utf-8", "replace")
    return act(
        request,
        lambda: imports.take(text, request.user, timezone.now()),
        "The observations were imported; the next training learns from them.",
        "predictor",
    )
