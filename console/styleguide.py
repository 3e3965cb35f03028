"""The living style page: every part of the pages at once, with made-up values. Debug and demo."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from agents.wire.names import PHASES
from console import looks
from console.staticfiles.icons import ICONS


def styleguide(request: HttpRequest) -> HttpResponse:
    return render(request, "components/styleguide.html", examples())


def examples() -> dict[str, Any]:
    now = timezone.now()
    return {
        "kinds": {kind: list(table) for kind, table in looks.LOOKS.items()},
        "icons": sorted(ICONS),
        "past": now - timedelta(seconds=362),
        "soon": now + timedelta(seconds=190),
        "page": Paginator(range(96), 20).page(2),
        "options": [("24h", "24 h"), ("14d", "14 d"), ("90d", "90 d")],
        "reasons": [("traffic", "Traffic test"), ("slo", "Protect the SLO"), ("incident", "Incident")],
        "facts": [
            (True, "Every online process is a live client of its MPS daemon"),
            (False, "SM activity is not readable: this driver has no such counter"),
        ],
        "pairs": [("Model", "A100 SXM4, 80 GB"), ("Driver", "550.90.07"), ("Online p99", None)],
        "cells": [
            {"k": "Utilisation", "v": "91 %", "was": "was 71"},
            {"k": "Memory", "v": "61 %", "was": "was 38"},
            {"k": "Jobs running", "v": "1,874", "was": "96 queued"},
        ],
        "states": [("HEALTHY", 3908), ("UNHEALTHY", 1007), ("GUARDED", 14), ("OVERLIMIT", 5)],
        "reached": PHASES[:4],
        "took": {PHASES[0]: "0.2 s", PHASES[1]: "0.3 s", PHASES[2]: "5.4 s", PHASES[3]: "5.5 s"},
        "now_phase": PHASES[4],
    }
