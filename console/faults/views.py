"""The page of one fault."""

from __future__ import annotations

from uuid import UUID

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_GET

from console.accounts.access import SreRequest
from console.faults import queries
from console.faults.queries import Told


@require_GET
def fault(request: SreRequest, pk: UUID) -> HttpResponse:
    """Its timeline and who was hit; htmx asks again while the story goes on."""
    found = get_object_or_404(queries.faults(request.user), pk=pk)
    gpu, job = found.gpu, found.job
    context = {
        "fault": found,
        "told": Told(found),
        "hold": job.held_until if job and job.is_held(timezone.now()) else None,
        "trail": [
            ("Map", reverse("map")),
            (gpu.node.name, reverse("node", args=[gpu.node.name])),
            (f"GPU {gpu.index}", reverse("gpu", args=[gpu.pk])),
        ],
    }
    template = "faults/_live.html" if request.htmx else "faults/fault.html"
    return render(request, template, context)
