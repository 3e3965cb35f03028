"""The charts of a GPU's page, as options of static/js/charts/line.js."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any, Final

from agents.wire.names import EventKind, Signal
from console.telemetry.history import SPAN_S, Series
from console.telemetry.latest import STALE_S
from console.telemetry.models import NodeEvent
from console.telemetry.passport import Passport
from console.telemetry.scales import GIB, Scale

Values = list[float | None]
# A pause longer than this many periods, and than it takes to be stale, is drawn as a gap.
GAP_PERIODS: Final = 3
MARKS: Final = 8
_MARKS: Final = {
    EventKind.FROZEN: ("frozen", "warn"),
    EventKind.EVICTION_STARTED: ("evicting", "warn"),
    EventKind.PLACEMENT_STARTED: ("guest in", "mark"),
    EventKind.PLACEMENT_ENDED: ("guest out", "mark"),
}


def ten_minutes(passport: Passport, series: Series) -> dict[str, Any]:
    """`from` says since when this process has seen the GPU; None: it has not."""
    common = {
        "x": series.times,
        "window_s": SPAN_S,
        "gap_s": max(STALE_S, series.period_s * GAP_PERIODS),
        "marks": marks(passport),
        "empty": "No samples yet: they are kept from the moment this web process saw the GPU",
    }
    return {
        "from": series.times[0] if series.times else None,
        "period_s": series.period_s,
        "charts": {
            "p99": common | _p99(passport, series),
            "sm": common | _sm_activity(passport, series),
            "memory": common | _memory(passport, series),
        },
    }


def marks(passport: Passport) -> list[dict[str, Any]]:
    """What happened in these ten minutes: one query."""
    return marks_between(passport.gpu.pk, passport.now - timedelta(seconds=SPAN_S), passport.now)


def marks_between(gpu_id: int, start: datetime, end: datetime) -> list[dict[str, Any]]:
    """The newest of what happened to a GPU then."""
    recent = NodeEvent.objects.filter(gpu=gpu_id, kind__in=_MARKS, at__gte=start, at__lte=end)
    rows = reversed(recent.order_by("-at").values_list("at", "kind")[:MARKS])
    return [_mark(at, EventKind(kind)) for at, kind in rows]


def _mark(at: datetime, kind: EventKind) -> dict[str, Any]:
    label, look = _MARKS[kind]
    return {"at": at.timestamp(), "label": label, "look": look}


def page_data(passport: Passport) -> dict[str, Any]:
    """What the page's script needs to show a live value: scale by scale."""
    return {
        "gpu": passport.gpu.pk,
        "node": passport.gpu.node_id,
        "scales": {scale.signal.value: asdict(scale) for scale in passport.scales},
        "card_bytes": passport.gpu.memory_bytes,
    }


def _p99(passport: Passport, series: Series) -> dict[str, Any]:
    scale = passport.scale(Signal.ONLINE_P99)
    return {
        "series": [{"label": "Online p99", "values": series.values[Signal.ONLINE_P99]}],
        "unit": "ms",
        "digits": scale.digits,
        "range": [0, scale.most],
        "thresholds": thresholds(scale, evict="freeze and evict above"),
    }


def _sm_activity(passport: Passport, series: Series) -> dict[str, Any]:
    total, online = series.values[Signal.SM_ACTIVITY], series.values["sm_online_percent"]
    return {
        "series": [
            {"label": "Online and offline", "values": total, "fill": True},
            {"label": "Online", "values": online, "look": "ghost", "fill": True},
        ],
        "unit": "%",
        "range": [0, 100],
        "thresholds": thresholds(passport.scale(Signal.SM_ACTIVITY)),
    }


def _memory(passport: Passport, series: Series) -> dict[str, Any]:
    card = passport.gpu.memory_bytes / GIB
    total = series.values["memory_percent"]
    offline = series.values["offline_memory_percent"]
    return {
        "series": [
            {"label": "Online and offline", "values": _gib(total, card), "fill": True},
            {
                "label": "Online",
                "values": _gib(_less(total, offline), card),
                "look": "ghost",
                "fill": True,
            },
        ],
        "unit": "GiB",
        "digits": 1,
        "range": [0, card],
        "thresholds": thresholds(passport.scale(Signal.MEMORY)),
    }


def thresholds(scale: Scale, evict: str = "evict above") -> list[dict[str, Any]]:
    """The lines that a chart of this signal is read against."""
    lines = []
    if scale.evict_at is not None:
        text = f"{evict} {scale.evict_at:.{scale.digits}f} {scale.unit}"
        lines.append({"at": scale.evict_at, "label": _capital(text), "look": "limit"})
    if scale.slo is not None:
        text = f"SLO {scale.slo:g} {scale.unit}"
        lines.append({"at": scale.slo, "label": text, "look": "slo"})
    return [line | {"side": "left"} for line in lines]


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _gib(percent: Values, card_gib: float) -> Values:
    return [None if value is None else round(value * card_gib / 100, 2) for value in percent]


def _less(whole: Values, part: Values) -> Values:
    """What is left of `whole` without `part`; a missing part counts as missing, not as none."""
    return [
        None if a is None or b is None else max(0.0, a - b)
        for a, b in zip(whole, part, strict=True)
    ]
