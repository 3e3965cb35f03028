"""Charts and tables of the online load ahead, for the pages of a GPU and of a service."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.http import require_safe

from agents.wire.names import Signal
from console.accounts.access import SreRequest
from console.api import in_sight
from console.forecasts import ahead, service_ahead
from console.forecasts.service_ahead import ServiceAhead
from console.telemetry import charts
from console.telemetry.views import passport_of
from console.workloads.models import OnlineService


@require_safe
def gpu_forecast(request: SreRequest, gpu_id: int) -> JsonResponse:
    """Six hours of the world clock and the hour that is expected, as options of a chart; with the
    limit of the policy for all of the card's SM activity."""
    known = passport_of(request, gpu_id)
    limits = {"thresholds": charts.thresholds(known.scale(Signal.SM_ACTIVITY))}
    return JsonResponse(ahead.chart(known.ahead) | limits)


@require_safe
def service_forecast(request: SreRequest, pk: int) -> JsonResponse:
    """The same of a service: the mean of its GPUs."""
    return JsonResponse(service_ahead.chart(_of_service(request, pk)))


@require_safe
def service_expected(request: SreRequest, pk: int) -> HttpResponse:
    """What is expected of a service, horizon by horizon, beside what came until now."""
    context = {"pk": pk, "told": _of_service(request, pk)}
    return render(request, "forecasts/_expected.html", context)


def _of_service(request: SreRequest, pk: int) -> ServiceAhead:
    seen = in_sight(OnlineService.objects.all(), request.user, "pool")
    return service_ahead.load(get_object_or_404(seen, pk=pk), timezone.now())
