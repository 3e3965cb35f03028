"""The living style page: every part of the pages at once, with made-up values. Debug and demo."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone

from agents.wire.names import PHASES
from console import looks
from console.assets.icons import ICONS


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
        "reasons": [("traffic", "Traffic test"), ("slo", "Protect the SLO")],
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
        "chart": chart(now.timestamp()),
    }


def chart(now_s: float) -> dict[str, Any]:
    """Options of a line chart with everything that one can have."""
    x = [now_s - 1800 + 10 * i for i in range(240)]
    wave = [29 + 2 * math.sin(i / 9) + (19 if 150 < i < 180 else 0) for i in range(240)]
    return {
        "x": x,
        "series": [
            {
                "label": "measured",
                "values": [*wave[:60], *[None] * 10, *wave[70:180], *[None] * 60],
            },
            {"label": "if kept", "look": "forecast", "values": [None] * 180 + [48] * 60},
        ],
        "unit": "ms",
        "digits": 0,
        "range": [20, 70],
        "thresholds": [
            {"at": 60, "label": "Evict above 60 ms", "side": "left"},
            {"at": 40, "label": "SLO 40 ms", "look": "slo", "side": "left"},
        ],
        "marks": [{"at": x[150], "label": "duty 40 %", "look": "warn", "side": "left"}],
        "shaded": [{"from": x[180], "to": x[-1], "label": "forecast"}],
        "now": x[180],
    }
