"""The map, the page of one GPU, and the documents that keep both current."""

from __future__ import annotations

from typing import Any, Final

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import condition, require_safe

from console.accounts.access import SreRequest, allowed, missing
from console.accounts.models import Role
from console.inventory.models import Gpu
from console.telemetry import charts, layout, passport, timeline, view, xids
from console.telemetry.hub import hub
from console.telemetry.passport import Passport
from console.telemetry.scales import Scale
from console.telemetry.sight import sight

GROUPS: Final = (
    ("pool", "Pool"),
    ("node", "Node"),
    ("rack", "Rack"),
    ("model", "GPU model"),
    ("service", "Service"),
    ("state", "State"),
)
FILLS: Final = (
    ("headroom", "Headroom to eviction"),
    ("sm_activity", "SM activity"),
    ("utilisation", "Utilisation"),
    ("memory", "Memory"),
    ("offline_share", "Offline share"),
    ("temperature", "Temperature"),
    ("power", "Power"),
    ("state", "State"),
)


@require_safe
def map_page(request: SreRequest) -> HttpResponse:
    """The controls with the view that the address asks for; cells come by the live feed."""
    context = {
        "groups": GROUPS,
        "fills": FILLS,
        "group": _one_of(request.GET.get("group"), GROUPS),
        "fill": _one_of(request.GET.get("fill"), FILLS),
        "view": "table" if request.GET.get("view") == "table" else "map",
        "q": request.GET.get("q", ""),
    }
    return render(request, "telemetry/map.html", context)


def _one_of(value: str | None, options: tuple[tuple[str, str], ...]) -> str:
    return value if value in dict(options) and value is not None else options[0][0]


def _layout_tag(request: SreRequest) -> str:
    pools = sight(request.user)
    seen = hub.audience.view(pools) if hub.layout.epoch else view.view(layout.load(), pools)
    request.layout = seen  # type: ignore[attr-defined]
    return f'"{seen.epoch:08x}"'


@require_safe
@condition(etag_func=_layout_tag)
def live_layout(request: SreRequest) -> HttpResponse:
    """Names and places of the GPUs that the live feed's frames are about."""
    response = HttpResponse(request.layout.document, content_type="application/json")  # type: ignore[attr-defined]
    response["Cache-Control"] = "private, no-cache"
    return response


@require_safe
def gpu_page(request: SreRequest, gpu_id: int) -> HttpResponse:
    """The page; only the parts that people change when htmx asks for its head."""
    parts = request.htmx.target == "gpu-head"
    template = "telemetry/_parts.html" if parts else "telemetry/gpu.html"
    return render(request, template, _context(request, passport_of(request, gpu_id)))


def passport_of(request: SreRequest, gpu_id: int) -> Passport:
    """Raises Http404 for a GPU that is not there or out of sight."""
    try:
        return passport.load(gpu_id, request.user, timezone.now())
    except Gpu.DoesNotExist:
        raise Http404(f"There is no GPU {gpu_id} in the pools that you may see.") from None


def _context(request: SreRequest, known: Passport) -> dict[str, Any]:
    gpu, pool = known.gpu, known.gpu.node.pool
    return {
        "gpu": gpu,
        "passport": known,
        "signals": [_signal(known, scale) for scale in known.scales],
        "nearest": _nearest(known),
        "facts": passport.facts(known),
        "timeline": timeline.of(gpu),
        "trail": [
            ("Map", reverse("map")),
            (pool.name, f"{reverse('map')}?q={pool.name}"),
            (gpu.node.name, reverse("node", args=[gpu.node.name])),
        ],
        "may_evict": allowed(request.user, Role.APPROVER, pool),
        "why_not_evict": missing(Role.APPROVER, pool),
        "may_operate": allowed(request.user, Role.OPERATOR, pool),
        "why_not_operate": missing(Role.OPERATOR, pool),
        "page_data": charts.page_data(known),
    }


def _signal(known: Passport, scale: Scale) -> tuple[Scale, float | None, str]:
    value = known.live.signal(scale.signal) if known.live else None
    return scale, scale.shown(value), scale.headroom(value, known.is_idle)


def _nearest(known: Passport) -> str:
    """`Memory, 3.4 GiB away`; empty when nothing is known."""
    if known.live is None or known.live.nearest_signal is None:
        return ""
    signal = known.live.nearest_signal
    scale = next(scale for scale in known.scales if scale.signal is signal)
    return f"{scale.name}, {scale.headroom(known.live.signal(signal))} away"


@require_safe
def gpu_xids(request: SreRequest, gpu_id: int) -> HttpResponse:
    """The row of a GPU's XIDs, which is read after its page: a week is."""
    known = passport_of(request, gpu_id)
    context = {"gpu": known.gpu, "xids": xids.of(known.gpu, known.now)}
    return render(request, "telemetry/_xids.html", context)


@require_safe
def gpu_series(request: SreRequest, gpu_id: int) -> JsonResponse:
    """The last ten minutes as this web process saw them, as options of the page's charts."""
    return JsonResponse(charts.ten_minutes(passport_of(request, gpu_id), hub.series(gpu_id)))
