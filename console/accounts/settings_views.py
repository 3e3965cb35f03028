"""Settings: people and roles, tokens, enrolment, imports, and how the console itself does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access, services, tokens
from console.accounts.access import SreRequest
from console.accounts.models import ApiToken, Role, RoleBinding, User
from console.errors import MuxFlowError
from console.inventory import enrolment, import_runs, pools
from console.inventory.models import EnrolmentToken, Pool
from console.prometheus import form
from console.prometheus import services as prometheus
from console.runs import health
from console.workloads import caps
from console.workloads import services as workloads
from console.workloads.models import Team

TABS: Final = (
    ("people", "People and roles"),
    ("tokens", "API tokens"),
    ("enrolment", "Enrolment"),
    ("import", "Import"),
    ("prometheus", "Prometheus"),
    ("health", "System health"),
)
# What each role lets its holder do, in the words of the page.
MEANS: Final = {
    Role.VIEWER: "sees everything in the pool",
    Role.OPERATOR: "submits and cancels jobs, cordons, drains, switches sharing",
    Role.APPROVER: "decides evictions, stops sharing",
    Role.POLICY_AUTHOR: "changes policies",
    Role.ADMIN: "all of it, and gives roles",
}
LIFETIMES: Final = (("30", "30 days"), ("90", "90 days"), ("365", "a year"), ("", "no end"))
SHOWN_TOKENS: Final = 30


@require_GET
@never_cache
def settings_page(request: SreRequest) -> HttpResponse:
    return _page(request, _tab(request.GET.get("tab")))


@require_POST
def person_add(request: SreRequest) -> HttpResponse:
    posted = request.POST
    return _act(
        request,
        "people",
        lambda: services.add_user(
            posted.get("username", ""),
            posted.get("full_name", ""),
            posted.get("password", ""),
            request.user,
            timezone.now(),
        ),
        "The person can sign in. Give them a role now; without one they see nothing.",
    )


@require_POST
def person_active(request: SreRequest, pk: int) -> HttpResponse:
    person = get_object_or_404(User, pk=pk)
    active = request.POST.get("active") == "1"
    return _act(
        request,
        "people",
        lambda: services.set_active(person, active, request.user, timezone.now()),
        f"{person} can sign in again." if active else f"{person} and their tokens are locked out.",
    )


@require_POST
def role_bind(request: SreRequest) -> HttpResponse:
    person = get_object_or_404(User, pk=_number(request.POST.get("user")))
    name = request.POST.get("pool", "")
    pool = get_object_or_404(Pool, name=name) if name else None
    if request.POST.get("role") not in Role.values:
        raise Http404("There is no such role.")
    role = Role(request.POST["role"])
    return _act(
        request,
        "people",
        lambda: services.bind(person, role, pool, request.user, timezone.now()),
        f"{person} is {role.label.lower()} in {pool or 'all pools'}.",
    )


@require_POST
def role_unbind(request: SreRequest, pk: int) -> HttpResponse:
    binding = get_object_or_404(RoleBinding.objects.select_related("user", "pool"), pk=pk)
    return _act(
        request,
        "people",
        lambda: services.unbind(binding, request.user, timezone.now()),
        f"{binding.user} is no longer {binding.get_role_display().lower()} there.",
    )


@require_POST
def team_add(request: SreRequest) -> HttpResponse:
    name = request.POST.get("name", "").strip()
    return _act(
        request,
        "people",
        lambda: workloads.add_team(name, request.user, timezone.now()),
        f"Team {name} can own services and jobs.",
    )


@require_POST
def team_cap(request: SreRequest, pk: int) -> HttpResponse:
    """How many of its jobs may run at once; an empty field is no cap."""
    team, typed = get_object_or_404(Team, pk=pk), request.POST.get("max_running", "").strip()
    return _act(
        request,
        "people",
        lambda: caps.set_cap(team, caps.read(typed), request.user, timezone.now()),
        f"Team {team} may run {typed or 'as many jobs as find a GPU'} at once.",
    )


@require_POST
@never_cache
def token_new(request: SreRequest) -> HttpResponse:
    """The answer is the page itself: the secret is in it once, and in no address."""
    now = timezone.now()
    days = _number(request.POST.get("days"))
    expires_at = now + timedelta(days=days) if days else None

    def make() -> str:
        return tokens.create(request.user, request.POST.get("name", ""), now, expires_at)[1]

    return _with_secret(request, "tokens", make)


@require_POST
def token_revoke(request: SreRequest, pk: int) -> HttpResponse:
    token = get_object_or_404(ApiToken, pk=pk, user=request.user)
    return _act(
        request,
        "tokens",
        lambda: tokens.revoke(token, request.user, timezone.now()),
        f"{token.name} is closed.",
    )


@require_POST
@never_cache
def enrolment_new(request: SreRequest) -> HttpResponse:
    """A one-time token for one machine; the secret is in this answer alone."""
    pool = get_object_or_404(Pool, name=request.POST.get("pool", ""))
    access.require(request.user, Role.ADMIN, pool)
    return _with_secret(
        request, "enrolment", lambda: enrolment.issue(pool, request.user, timezone.now())
    )


@require_POST
def pool_new(request: SreRequest) -> HttpResponse:
    name = request.POST.get("name", "").strip()
    zone = request.POST.get("time_zone", "").strip() or "UTC"
    return _act(
        request,
        "enrolment",
        lambda: pools.create(name, request.user, timezone.now(), zone),
        f"Pool {name} is there, at sharing mode observe.",
    )


@require_POST
def import_new(request: SreRequest) -> HttpResponse:
    """Import the file that was chosen; a worker does it, and the page shows how far it is."""
    upload = request.FILES.get("file")
    if upload is None or upload.size is None or upload.size > import_runs.MAX_CHARS:
        messages.error(request, f"Choose a file of up to {import_runs.MAX_CHARS >> 20} MiB.")
        return redirect("/settings/?tab=import")
    text = upload.read().decode("utf-8", "replace")
    return _act(
        request,
        "import",
        lambda: import_runs.start(text, upload.name or "file", request.user, timezone.now()),
        "The import has begun. You can leave this page and find it again.",
    )


@require_POST
@never_cache
def prometheus_save(request: SreRequest) -> HttpResponse:
    """Ask what is in the form and show the answer; to save it is to try it first."""
    asked = form.typed(request.POST)
    try:
        if request.POST.get("do") != "save":
            trial = prometheus.attempt(asked, request.user)
            return _page(request, "prometheus", **form.answered(asked, trial))
        prometheus.save(asked, request.user, timezone.now())
    except MuxFlowError as error:
        return _page(request, "prometheus", status=400, **form.refused(asked, error))
    messages.success(request, "Saved: it is asked once a minute from now on.")
    return redirect("/settings/?tab=prometheus")


@require_POST
def prometheus_forget(request: SreRequest) -> HttpResponse:
    return _act(
        request,
        "prometheus",
        lambda: prometheus.forget(request.user, timezone.now()),
        "Prometheus is asked no more.",
    )


def _page(request: SreRequest, tab: str, status: int = 200, **more: Any) -> HttpResponse:
    context = {"tab": tab, "tabs": TABS, **_CONTEXT[tab](request), **more}
    template = "accounts/settings.html"
    if request.htmx and request.htmx.target == "runs":
        template = "accounts/_runs.html"
    return render(request, template, context, status=status)


def _people(request: SreRequest) -> dict[str, Any]:
    mine = list(access.pools_for(request.user, Role.ADMIN))
    everywhere = access.allowed(request.user, Role.ADMIN)
    people = User.objects.prefetch_related("bindings__pool").order_by("username")
    return {
        "people": people if mine or everywhere else people.filter(pk=request.user.pk),
        "roles": [(role, MEANS[role]) for role in Role],
        "pools": mine,
        "everywhere": everywhere,
        "closed": "" if mine or everywhere else access.missing(Role.ADMIN),
        "teams": Team.objects.all(),
    }


def _tokens(request: SreRequest) -> dict[str, Any]:
    mine = ApiToken.objects.filter(user=request.user).order_by("-created_at")
    return {"tokens": mine, "lifetimes": LIFETIMES, "now": timezone.now()}


def _enrolment(request: SreRequest) -> dict[str, Any]:
    mine = access.pools_for(request.user, Role.ADMIN)
    issued = EnrolmentToken.objects.filter(pool__in=mine).select_related(
        "pool", "created_by", "used_by"
    )
    return {
        "pools": mine,
        "issued": issued.order_by("-created_at")[:SHOWN_TOKENS],
        "everywhere": access.allowed(request.user, Role.ADMIN),
        "closed": "" if mine.exists() else access.missing(Role.ADMIN),
        "now": timezone.now(),
        "address": request.build_absolute_uri("/").rstrip("/"),
    }


def _import(request: SreRequest) -> dict[str, Any]:
    allowed = access.allowed(request.user, Role.ADMIN)
    return {
        "closed": "" if allowed else access.missing(Role.ADMIN),
        "runs": health.runs(import_runs.KIND) if allowed else [],
    }


def _health(request: SreRequest) -> dict[str, Any]:
    broker = health.broker()
    return {
        "broker": broker,
        "leases": health.leases(),
        "ages": health.ages(),
        "unsealed": health.unsealed(),
        "nodes": health.nodes_by_state(),
        "agents": health.agent_versions(),
        "refusing": health.refusing(),
        "versions": health.versions(broker.version),
        "now": timezone.now(),
    }


_CONTEXT: Final[dict[str, Callable[[SreRequest], dict[str, Any]]]] = {
    "people": _people,
    "tokens": _tokens,
    "enrolment": _enrolment,
    "import": _import,
    "prometheus": lambda request: form.in_force(request.user),
    "health": _health,
}


def _tab(wanted: str | None) -> str:
    return wanted if wanted in dict(TABS) and wanted else TABS[0][0]


def _act(request: SreRequest, tab: str, change: Callable[[], object], done: str) -> HttpResponse:
    try:
        change()
    except MuxFlowError as error:
        fields = getattr(error, "fields", {})
        messages.error(request, " ".join([str(error), *fields.values()]))
    else:
        messages.success(request, done)
    return redirect(f"/settings/?tab={tab}")


def _with_secret(request: SreRequest, tab: str, make: Callable[[], str]) -> HttpResponse:
    try:
        return _page(request, tab, secret=make())
    except MuxFlowError as error:
        return _page(request, tab, status=400, error=str(error))


def _number(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else 0
