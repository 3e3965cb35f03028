"""The chart of the online load ahead, for the page of a GPU."""

from __future__ import annotations

from django.http import Http404, JsonResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from console.accounts.access import SreRequest
from console.api import in_sight
from console.forecasts import ahead
from console.inventory.models import Gpu


@require_safe
def gpu_forecast(request: SreRequest, gpu_id: int) -> JsonResponse:
    """Six hours of the world clock and the hour that is expected, as options of a chart."""
    if not in_sight(Gpu.objects.filter(pk=gpu_id), request.user, "node__pool").exists():
        raise Http404(f"There is no GPU {gpu_id} in the pools that you may see.")
    return JsonResponse(ahead.chart(ahead.load(gpu_id, timezone.now())))
