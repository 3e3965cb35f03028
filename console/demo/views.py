"""One-click sign-in, the switch between people, the faults of the panel and what came of them."""

from __future__ import annotations

from django.contrib import messages
from django.contrib.auth import login
from django.contrib.auth.decorators import login_not_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_POST, require_safe

from agents.wire import faults
from console.demo import fleet, lab, people
from console.demo.outcome import outcomes
from console.errors import MuxFlowError
from console.inventory.models import Node
from console.pages import ours
from console.scheduling.models import Placement

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


@login_not_required
@require_POST
def demo_sign_in(request: HttpRequest) -> HttpResponse:
    return _become(request, request.POST.get("role", "approver"))


@require_POST
def demo_switch_user(request: HttpRequest) -> HttpResponse:
    return _become(request, request.POST.get("role", ""))


def _become(request: HttpRequest, role: str) -> HttpResponse:
    user = people.with_role(role)
    if user is None:
        raise Http404(f"The demo has no {role!r}; choose viewer, approver or admin.")
    login(request, user, backend=MODEL_BACKEND)
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    return redirect(ours(request.POST.get("next", ""), "overview"))


@require_POST
def demo_fault(request: HttpRequest) -> HttpResponse:
    kind = request.POST.get("kind", "")
    if kind in SIGTERMS:
        return _sigterm(request, under_xcuda=SIGTERMS[kind])
    make = FAULTS.get(kind)
    if make is None:
        raise Http404("The panel has no such fault.")
    try:
        messages.success(request, fleet.ask(make()))
    except MuxFlowError as error:
        messages.error(request, str(error))
    return _back(request)


def _sigterm(request: HttpRequest, *, under_xcuda: bool) -> HttpResponse:
    """Goes where one sees what comes of it."""
    try:
        messages.success(request, lab.terminate(under_xcuda=under_xcuda))
    except MuxFlowError as error:
        messages.error(request, str(error))
        return _back(request)
    return redirect("demo_sigterm")


@require_safe
def demo_sigterm(request: HttpRequest) -> HttpResponse:
    """The last SIGTERM of each kind; asks for itself every second while one goes on."""
    told, why = outcomes(()), lab.why_absent()
    try:
        told = outcomes(() if why else lab.presses())
    except MuxFlowError as error:
        why = str(error)
    part = "demo/_sigterm.html" if request.headers.get("HX-Request") else "demo/sigterm.html"
    return render(request, part, {"outcomes": told, "why": why})


def _spike() -> faults.Fault:
    return faults.TrafficSpike()


def _kill_node() -> faults.Fault:
    return faults.KillNode(_busy_node())


def _cut_console() -> faults.Fault:
    return faults.CutConsole(_busy_node())


def _busy_node() -> str:
    """A simulated node with a guest on it, else any: a fault there has something to show."""
    live = Placement.objects.exclude(state="ENDED").filter(gpu__node__runtime="simulated")
    name = live.order_by("gpu__node__name").values_list("gpu__node__name", flat=True).first()
    simulated = Node.objects.filter(runtime="simulated", state=Node.State.CONNECTED)
    return name or simulated.values_list("name", flat=True).first() or "node-01"


FAULTS = {"traffic_spike": _spike, "kill_node": _kill_node, "cut_console": _cut_console}
SIGTERMS = {"sigterm_with": True, "sigterm_without": False}
