"""The audit: everything that anyone and anything did, and whether the story is whole."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET, require_POST

from console.accounts import access
from console.accounts.access import SreRequest
from console.accounts.models import Role
from console.audit import services
from console.audit.filters import EntryFilter
from console.audit.models import Entry
from console.audit.rows import rows

ROWS = 50


@require_GET
def audit(request: SreRequest) -> HttpResponse:
    access.require(request.user, Role.VIEWER)
    found = EntryFilter(request.GET, Entry.objects.select_related("user").order_by("-pk"))
    page = Paginator(found.qs, ROWS).get_page(request.GET.get("page"))
    context = {"page": page, "rows": rows(page.object_list), "filter": found, "asked": request.GET}
    return render(request, "audit/audit.html", context)


@require_POST
def verify(request: SreRequest) -> HttpResponse:
    """Computes every hash again and says what it found."""
    access.require(request.user, Role.VIEWER)
    context = {"verdict": services.verify(), "at": timezone.now()}
    template = "audit/_verdict.html" if request.htmx else "audit/verdict.html"
    return render(request, template, context)
