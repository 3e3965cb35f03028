"""Jobs and services: lists, single pages, the submit form, cancelling."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role
from console.api import in_sight
from console.audit.services import person
from console.errors import Invalid
from console.faults import queries as faults
from console.forecasts import service_ahead
from console.inventory import never_share
from console.inventory.models import Gpu
from console.lists import options
from console.pages import act, dialog, reason_of
from console.scheduling.pending import WhyPending
from console.telemetry.hub import hub, live_of
from console.workloads import beside, holds, load_bins, queries, service_chart, services
from console.workloads.filters import JobFilter, ServiceFilter
from console.workloads.forms import JobForm, like
from console.workloads.models import OfflineJob, Team
from console.workloads.queries import JobPage
from console.workloads.tables import JobTable, ServiceTable

State = OfflineJob.State
SHOW: Final = {
    "waiting": ("Waiting", (State.PENDING, State.QUEUED)),
    "running": ("Running", (State.PROFILING, State.PLACED)),
    "ended": ("Ended", (State.SUCCEEDED, State.FAILED, State.CANCELLED)),
    "all": ("All", tuple(State)),
}
ORDER: Final = {
    "waiting": ("-priority", "submitted_at", "pk"),
    "running": ("-state_since", "pk"),
    "ended": ("-finished_at", "pk"),
    "all": ("-submitted_at", "pk"),
}
WHY_CANCEL: Final = (
    ("No longer needed", "No longer needed"),
    ("Wrong settings", "Wrong settings"),
    ("Making room", "Making room"),
)

WHY_LIFT: Final = (
    ("Its fault is mended", "Its fault is mended"),
    ("It was not its fault", "It was not its fault"),
    ("Trial", "Trial"),
)


@require_GET
def job_list(request: SreRequest) -> HttpResponse:
    """The queue, what runs, and what has ended."""
    show = request.GET.get("show", "")
    show = show if show in SHOW else "waiting"
    rows = queries.jobs(request.user).filter(state__in=SHOW[show][1]).order_by(*ORDER[show])
    found = JobFilter(request.GET, rows)
    without = () if show == "waiting" else ("place",)
    now = timezone.now()
    table = JobTable(request, found.qs, queries.positions(now), now, exclude=without)
    pools = access.pools_for(request.user, Role.VIEWER).values_list("name", flat=True)
    context = {
        "table": table,
        "show": show,
        "views": [(key, word) for key, (word, _) in SHOW.items()],
        "teams": options("All teams", Team.objects.values_list("name", flat=True)),
        "pools": options("All pools", pools),
        "filtered": any(request.GET.get(key) for key in ("q", "team", "pool")),
        "closed": _closed(request),
    }
    return render(request, "workloads/jobs.html", context)


@require_GET
def job(request: SreRequest, pk: UUID) -> HttpResponse:
    found, now = _job(request, pk), timezone.now()
    context = {
        "job": found,
        "page": JobPage(found, now),
        "pending": WhyPending(found, request.user, now),
        "may_cancel": services.may_cancel(found, request.user),
        "may_lift": services.operates(found, request.user),
        "closed": _closed(request),
    }
    template = "workloads/_job_live.html" if request.htmx else "workloads/job.html"
    return render(request, template, context)


@require_http_methods(["GET", "POST"])
def job_new(request: SreRequest) -> HttpResponse:
    """Submit a job; `?like=` fills the form from another one."""
    if closed := _closed(request):
        return render(request, "workloads/job_new.html", {"closed": closed}, status=403)
    form = JobForm(request.user, request.POST or None, initial=_initial(request))
    if request.method == "POST" and form.is_valid():
        try:
            submitted = services.submit(form.submission(), request.user, timezone.now())
            return redirect("job", submitted.pk)
        except Invalid as error:
            form.add_error(None, str(error))
    status = 422 if form.is_bound else 200
    return render(request, "workloads/job_new.html", {"form": form}, status=status)


@require_http_methods(["GET", "POST"])
def job_cancel(request: SreRequest, pk: UUID) -> HttpResponse:
    """First what it would do, then do it."""
    found = _job(request, pk)
    if request.method == "GET":
        page = JobPage(found, timezone.now())
        context = {"title": f"Cancel {found}", "job": found, "page": page, "reasons": WHY_CANCEL}
        return dialog(request, "workloads/_cancel.html", context)
    reason = reason_of(request)
    return act(
        request,
        lambda: services.cancel(found, request.user, reason, timezone.now()),
        f"{found} is cancelled, or on its way off its GPU.",
        f"/jobs/{found.pk}/",
    )


@require_http_methods(["GET", "POST"])
def job_lift_hold(request: SreRequest, pk: UUID) -> HttpResponse:
    """First what it would do, then let rounds place the job again."""
    found = _job(request, pk)
    services.require_operator(found, request.user)
    if request.method == "GET":
        context = {"title": f"Lift the hold of {found}", "job": found, "reasons": WHY_LIFT}
        return dialog(request, "workloads/_lift_hold.html", context)
    reason = reason_of(request)
    return act(
        request,
        lambda: holds.lift(found, request.user, reason, timezone.now()),
        f"{found} is no longer held; the next round looks at it.",
        f"/jobs/{found.pk}/",
    )


@require_GET
def service_list(request: SreRequest) -> HttpResponse:
    """Online services with their load, and their latency against the SLO, as of now."""
    found = ServiceFilter(request.GET, queries.services(request.user))
    rows = queries.service_rows(found.qs)
    pools = access.pools_for(request.user, Role.VIEWER).values_list("name", flat=True)
    context = {
        "table": ServiceTable(request, rows),
        "rows": rows,
        "over": sum(row.over for row in rows),
        "pools": options("All pools", pools),
        "teams": options("All teams", Team.objects.values_list("name", flat=True)),
        "filtered": any(request.GET.get(key) for key in ("q", "pool", "team")),
    }
    return render(request, "workloads/services.html", context)


@require_GET
def service(request: SreRequest, pk: int) -> HttpResponse:
    found = get_object_or_404(queries.services(request.user), pk=pk)
    rows = queries.instance_rows(found)
    row = queries.ServiceRow(found)
    for one in rows:
        row.add(one.sample, one.neighbour is not None)
    context = {
        "service": found,
        "row": row,
        "rows": rows,
        "sides": queries.sides(rows),
        "faults": faults.of_service(found),
        "profiles": found.profiles.defer("counts"),
        "told": service_ahead.load(found, timezone.now()),
        "may_operate": access.allowed(request.user, Role.OPERATOR, found.pool),
    }
    template = "workloads/_service_live.html" if request.htmx else "workloads/service.html"
    return render(request, template, context)


@require_POST
def service_never_share(request: SreRequest, pk: int) -> HttpResponse:
    """Place nothing beside its instances, or let the sharing modes decide again."""
    found = get_object_or_404(queries.services(request.user), pk=pk)
    access.require(request.user, Role.OPERATOR, found.pool)
    never = bool(request.POST.get("never"))
    change = never_share.forbid if never else never_share.allow
    return act(
        request,
        lambda: change(found, person(request.user), reason_of(request), timezone.now()),
        f"{found} {'never gets a neighbour' if never else 'may have neighbours again'}.",
        f"/services/{found.pk}/",
    )


@require_GET
def service_beside(request: SreRequest, pk: int) -> HttpResponse:
    """p99 with and without a neighbour at the same load, as a card of the service's page."""
    found = get_object_or_404(queries.services(request.user), pk=pk)
    context = {"service": found, "beside": beside.read(found, timezone.now())}
    return render(request, "workloads/_beside.html", context)


@require_GET
def gpu_beside(request: SreRequest, gpu_id: int) -> HttpResponse:
    """The same of one GPU at the load that it has now, as words for its page."""
    found = get_object_or_404(in_sight(Gpu.objects.all(), request.user, "node__pool"), pk=gpu_id)
    live = live_of(found.pk)
    qps = live.online_qps if live and live.is_live else None
    context = {
        "gpu": found,
        "qps": qps,
        "bin": beside.at_load(found.pk, qps, timezone.now()),
        "enough": load_bins.ENOUGH,
    }
    return render(request, "workloads/_beside_gpu.html", context)


@require_GET
def service_series(request: SreRequest, pk: int) -> JsonResponse:
    """The last ten minutes as this web process saw them: `?chart=p99` or `load`."""
    found = get_object_or_404(queries.services(request.user), pk=pk)
    instances = found.instances.filter(gpu__retired_at=None).order_by("pk")
    ids = instances.values_list("gpu_id", flat=True)[: service_chart.MOST]
    heard = [series for gpu_id in ids if (series := hub.series(gpu_id)).times]
    if request.GET.get("chart") == "load":
        return JsonResponse(service_chart.load(heard))
    return JsonResponse(service_chart.p99(found, heard))


def _job(request: SreRequest, pk: UUID) -> OfflineJob:
    return get_object_or_404(queries.jobs(request.user), pk=pk)


def _initial(request: SreRequest) -> dict[str, object]:
    """The values of another job, when the address names one that the person may see."""
    try:
        wanted = UUID(request.GET.get("like", ""))
    except ValueError:
        return {}
    model = queries.jobs(request.user).filter(pk=wanted).first()
    return like(model) if model else {}


def _closed(request: SreRequest) -> str:
    """Why the person cannot submit jobs; empty when they can."""
    if access.allowed(request.user, Role.OPERATOR):
        return ""
    mine = access.pools_for(request.user, Role.OPERATOR)
    return "" if mine.exists() else access.missing(Role.OPERATOR).replace("all pools", "a pool")
