"""The list of policies, one policy with its versions, and the form that makes the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods

from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role, User
from console.errors import Invalid, SomebodyWasFirst
from console.pages import reason_of
from console.policies import fleet, form, rules, services, words
from console.policies.models import Policy, PolicyVersion
from console.policies.rules import PolicyBody

REASONS: Final = (
    ("Fewer evictions", "Fewer evictions"),
    ("Protect the SLO", "Protect the SLO"),
    ("Share more", "Share more"),
    ("Incident", "Incident"),
    ("Trial", "Trial"),
)
PRESETS: Final = (
    ("conservative", "Conservative", "evicts early, shares less"),
    ("balanced", "Balanced", "shares what is free"),
    ("aggressive", "Aggressive", "shares more, SLO first"),
)


@require_GET
def policies(request: SreRequest) -> HttpResponse:
    access.require(request.user, Role.VIEWER)
    found = Policy.objects.select_related("current__author").prefetch_related("pool_set")
    rows = [(one, fleet.applied(one), fleet.governed(one)) for one in found if one.current]
    return render(request, "policies/list.html", {"rows": rows})


@require_GET
def policy(request: SreRequest, slug: str) -> HttpResponse:
    """Its versions, the difference between two of them, and who has applied it."""
    access.require(request.user, Role.VIEWER)
    found, _ = _find(slug)
    context = {"policy": found, "applied": fleet.applied(found)}
    if request.htmx and request.htmx.target == "applied":
        return render(request, "policies/_applied.html", context)
    versions = list(found.versions.select_related("author"))
    return render(request, "policies/policy.html", context | _about(found, versions, request))


@require_http_methods(["GET", "POST"])
def policy_edit(request: SreRequest, slug: str) -> HttpResponse:
    """The form. A POST makes the next version; 409 when somebody saved one meanwhile."""
    found, was = _find(slug)
    services.require_author(request.user, found)
    if request.method == "GET":
        preset = rules.presets(settings.MUXFLOW_DEMO).get(request.GET.get("from", ""))
        return _form(request, found, preset or was, was)
    try:
        services.require_seen(found, request.POST.get("seen", ""))
        version = services.save_version(
            found, form.read(request.POST, was), request.user, reason_of(request), timezone.now()
        )
    except SomebodyWasFirst as first:
        return _form(request, found, was, was, typed=request.POST, error=str(first), status=409)
    except Invalid as invalid:
        return _form(request, found, was, was, typed=request.POST, invalid=invalid, status=422)
    return redirect(f"{reverse('policy', args=[slug])}?saved={version.number}")


def _find(slug: str) -> tuple[Policy, PolicyBody]:
    found = get_object_or_404(Policy.objects.select_related("current"), slug=slug)
    body = services.body_of(found.current)
    if body is None:
        raise Http404(f"Policy {found} has no version yet.")
    return found, body


# --- one policy ---------------------------------------------------------------------------


def _about(found: Policy, versions: list[PolicyVersion], request: SreRequest) -> dict[str, Any]:
    after, before = _compared(versions, request.GET)
    body = services.body_of(after)
    return {
        "versions": versions,
        "after": after,
        "before": before,
        "changes": _changes(before, after),
        "form": form.build(body, body) if body else None,
        "pools": services.pools_of(found),
        "gpus": fleet.governed(found),
        "why_closed": _why_closed(request.user, found),
        "saved": request.GET.get("saved", ""),
        "trail": [("Policies", reverse("policies"))],
    }


def _compared(
    versions: list[PolicyVersion], asked: Mapping[str, Any]
) -> tuple[PolicyVersion, PolicyVersion | None]:
    """The two versions that the address names; without it the one in force and the one before."""
    by_number = {str(version.number): version for version in versions}
    after = by_number.get(str(asked.get("b", "")), versions[0])
    older = [version for version in versions if version.number < after.number]
    before = by_number.get(str(asked.get("a", "")), older[0] if older else None)
    return after, before


def _changes(before: PolicyVersion | None, after: PolicyVersion) -> list[tuple[str, str, str]]:
    if before is None:
        return []
    return [
        (words.label(path), words.shown(path, old), words.shown(path, new))
        for path, old, new in rules.diff(rules.parse(before.body), rules.parse(after.body))
    ]


def _why_closed(user: User, found: Policy) -> str:
    try:
        services.require_author(user, found)
    except PermissionDenied as missing:
        return str(missing)
    return ""


# --- the form -----------------------------------------------------------------------------


def _form(
    request: SreRequest,
    found: Policy,
    body: PolicyBody,
    was: PolicyBody,
    *,
    typed: Mapping[str, str] | None = None,
    error: str = "",
    invalid: Invalid | None = None,
    status: int = 200,
) -> HttpResponse:
    readings = fleet.readings(found)
    built = form.build(body, was, typed, invalid.fields if invalid else None)
    context = {
        "policy": found,
        "number": found.current.number + 1 if found.current else 1,
        "form": built,
        "rows": [(row, *_above(row, readings)) for row in built.thresholds],
        "readings": readings,
        "histograms": {signal.value: _shown(signal, readings) for signal in body.thresholds},
        "presets": _presets(body),
        "pools": services.pools_of(found),
        "reasons": REASONS,
        "choices": form.CHOICES,
        "error": error or (str(invalid) if invalid else ""),
        "clash": bool(error),
        "trail": [
            ("Policies", reverse("policies")),
            (found.name, reverse("policy", args=[found.slug])),
        ],
    }
    return render(request, "policies/edit.html", context, status=status)


def _above(row: form.ThresholdRow, readings: fleet.Readings) -> tuple[int | None, int | None]:
    """How many GPUs are past each limit now; None where nothing is measured or readable."""
    if row.signal not in readings.values:
        return None, None
    return _beyond(row.lower, row, readings), _beyond(row.upper, row, readings)


def _beyond(field: form.Field, row: form.ThresholdRow, readings: fleet.Readings) -> int | None:
    try:
        limit = float(field.value) / row.words.scale
    except ValueError:
        return None
    return readings.beyond(row.signal, limit, row.is_reversed)


def _shown(signal: Any, readings: fleet.Readings) -> list[float]:
    """Present values in the unit of the form."""
    scale = words.SIGNALS[signal].scale
    return [round(value * scale, 1) for value in readings.values.get(signal, [])]


def _presets(body: PolicyBody) -> list[tuple[str, str, str, int]]:
    bodies = rules.presets(settings.MUXFLOW_DEMO)
    return [(slug, word, text, len(rules.diff(bodies[slug], body))) for slug, word, text in PRESETS]
