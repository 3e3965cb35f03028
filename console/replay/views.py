"""The ten minutes around an eviction or any other moment of a GPU."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.views.decorators.http import require_safe

from console.accounts.access import SreRequest
from console.evictions import words
from console.evictions.models import Eviction
from console.inventory.models import Gpu
from console.policies import rules
from console.policies.models import PolicyVersion
from console.replay import honesty, pins, recordings, tracks
from console.replay.footage import Footage, assemble
from console.replay.honesty import Silences
from console.replay.pins import Pins
from console.replay.rules_then import Force, Saved, in_force
from console.telemetry.passport import Passport
from console.telemetry.scales import Card
from console.telemetry.views import passport_of

SPAN: Final = timedelta(minutes=10)


@require_safe
def replay(request: SreRequest, gpu_id: int) -> HttpResponse:
    """`at` or `eviction` say around what; `mark` is where the scrubber stands."""
    known = passport_of(request, gpu_id)
    eviction = _eviction(known.gpu, request.GET.get("eviction", ""))
    around = eviction.proposed_at if eviction else _moment(request, "at", known.now)
    end = min(around + SPAN / 2, known.now).replace(microsecond=0)
    mark = min(max(_moment(request, "mark", around), end - SPAN), end)
    context = _context(known, end - SPAN, end, mark)
    context["data"]["around"] = around.timestamp()
    about = {"eviction": eviction, "about": words.title(eviction)} if eviction else {}
    return render(request, "replay/page.html", context | about)


def _context(known: Passport, start: datetime, end: datetime, mark: datetime) -> dict[str, Any]:
    versions = _versions(known)
    forces = _forces(known, versions, start, end)
    footage = _footage(known.gpu, start, end)
    happened = pins.between(known.gpu, versions, start, end)
    shown, moment = tracks.shown(footage, forces), mark.timestamp()
    row, present = footage.at(moment), known.now.replace(microsecond=0)
    return {
        "gpu": known.gpu,
        "start": start,
        "end": end,
        "mark": mark,
        "readings": [tracks.reading(one, row, forces, moment) for one in shown],
        "state": _state_at(happened, moment),
        "pins": happened,
        "lines": tracks.table(footage, shown),
        "tracks": shown,
        "data": tracks.data(footage, shown, forces),
        "resolution": honesty.resolution(footage),
        "missing": honesty.missing(footage, _silences(known)),
        "clocks": honesty.clocks(footage),
        "policy": honesty.policy(forces),
        "earlier": _address(known.gpu, start),
        "later": _address(known.gpu, end + SPAN / 2) if end < present else "",
        "trail": [
            ("Map", reverse("map")),
            (known.gpu.node.name, reverse("node", args=[known.gpu.node.name])),
            (f"GPU {known.gpu.index}", reverse("gpu", args=[known.gpu.pk])),
        ],
    }


def _eviction(gpu: Gpu, asked: str) -> Eviction | None:
    if not asked:
        return None
    rows = Eviction.objects.filter(gpu=gpu).select_related("placement__job", "to_gpu__node")
    try:
        return rows.select_related("gpu__node").get(pk=UUID(asked))
    except (ValueError, Eviction.DoesNotExist):
        raise Http404(f"There is no such eviction of {gpu}.") from None


def _moment(request: SreRequest, name: str, otherwise: datetime) -> datetime:
    """Unix seconds, or a date and time (UTC where no zone is told)."""
    text = request.GET.get(name, "")
    try:
        told = parse_datetime(text)
        if told is None and text:
            told = datetime.fromtimestamp(float(text), UTC)
        if told is None:
            return otherwise
        return told if told.tzinfo else told.replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        raise Http404(f"{name}={text} is no moment: give a date and time, or seconds.") from None


def _versions(known: Passport) -> list[PolicyVersion]:
    """Of the policy that governs the pool, ascending."""
    if known.version is None:
        return []
    rows = PolicyVersion.objects.filter(policy=known.version.policy_id).select_related("policy")
    return list(rows.order_by("number"))


def _forces(
    known: Passport, versions: list[PolicyVersion], start: datetime, end: datetime
) -> list[Force]:
    held = [
        one
        for one, following in zip(versions, [*versions[1:], None], strict=True)
        if one.created_at < end and (following is None or following.created_at > start)
    ]
    saved = [Saved(one.created_at.timestamp(), str(one), rules.parse(one.body)) for one in held]
    gpu = known.gpu
    slo = known.instance.service.slo_p99_ms if known.instance else None
    card = Card(
        gpu.memory_bytes, gpu.power_limit_w, gpu.sm_clock_max_mhz, slo, gpu.pcie_max_bytes_s
    )
    return in_force(saved, card, start.timestamp(), end.timestamp())


def _footage(gpu: Gpu, start: datetime, end: datetime) -> Footage:
    found = recordings.of_gpu(gpu, start, end)
    return assemble(found, start.timestamp(), end.timestamp())


def _silences(known: Passport) -> Silences:
    node = known.gpu.node
    return Silences(known.now.timestamp(), node.source == node.Source.AGENT)


def _state_at(happened: Pins, moment: float) -> str:
    """A key of console.looks.GPU; empty where it is not known."""
    return next((s.state for s in reversed(happened.stays) if s.start <= moment), "")


def _address(gpu: Gpu, around: datetime) -> str:
    return f"{reverse('replay', args=[gpu.pk])}?at={around.timestamp():.0f}"
