"""The evidence chart: ten minutes of the signal, its limits, what was done, and both choices."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from agents.wire.names import EventKind, Signal
from agents.wire.policy import Threshold
from console.evictions import lifecycle
from console.evictions.lifecycle import State
from console.evictions.models import Eviction
from console.policies import services as policies
from console.policies.rules import Default
from console.telemetry.history import SPAN_S
from console.telemetry.hub import hub
from console.telemetry.models import NodeEvent
from console.workloads.models import OnlineService

# What the history keeps of each signal, and its unit.
_SERIES: Final = {
    Signal.ONLINE_P99: ("online_p99", "ms"),
    Signal.SM_ACTIVITY: ("sm_activity", "%"),
    Signal.GPU_UTIL: ("gpu_util", "%"),
    Signal.MEMORY: ("memory_percent", "%"),
    Signal.TEMPERATURE: ("temperature", "°C"),
    Signal.POWER: ("power", "W"),
}
_NAMES: Final = {
    Signal.ONLINE_P99: "p99",
    Signal.SM_ACTIVITY: "SM activity",
    Signal.GPU_UTIL: "GPU utilisation",
    Signal.MEMORY: "Memory",
    Signal.TEMPERATURE: "Temperature",
    Signal.POWER: "Power",
}
# Where limits are drawn in the unit shown; the power limit is a share of a card's own.
_IN_PERCENT: Final = (Signal.SM_ACTIVITY, Signal.GPU_UTIL, Signal.MEMORY, Signal.TEMPERATURE)
_RANGES: Final = {"%": [0, 100], "ms": [None, None]}
# The forecast reaches to the deadline, within these.
FORECAST_S: Final = (120.0, 300.0)


def signal_of(eviction: Eviction, service: OnlineService | None) -> Signal:
    """What the chart shows: the signal of the evidence, else the p99, else SM activity."""
    named = eviction.evidence.get("signal")
    if named in {signal.value for signal in _SERIES}:
        return Signal(named)
    return Signal.ONLINE_P99 if service and service.slo_p99_ms else Signal.SM_ACTIVITY


def heading(signal: Signal, service: OnlineService | None) -> str:
    if signal is Signal.ONLINE_P99 and service:
        return f"{service} {_NAMES[signal]}"
    return _NAMES[signal]


def is_covered(eviction: Eviction, now: datetime) -> bool:
    """Whether the minutes of this eviction are still in the live history."""
    end = eviction.ended_at or now
    return now - end < timedelta(seconds=SPAN_S)


def options(eviction: Eviction, service: OnlineService | None, now: datetime) -> dict[str, Any]:
    """As static/js/charts/line.js takes it."""
    signal = signal_of(eviction, service)
    column, unit = _SERIES[signal]
    past = hub.series(eviction.gpu_id)
    times, values = list(past.times), list(past.values[column])
    series = [{"label": "measured", "values": values, "look": "main"}]
    chart: dict[str, Any] = {
        "x": times,
        "series": series,
        "unit": unit,
        "digits": 0,
        "range": _RANGES.get(unit, [0, None]),
        "thresholds": _limits(eviction, signal, service),
        "marks": _marks(eviction, now),
    }
    if eviction.state in lifecycle.UNDECIDED and times:
        _add_forecast(chart, eviction, now)
    return chart


def _add_forecast(chart: dict[str, Any], eviction: Eviction, now: datetime) -> None:
    """Both choices as lines from now on: an estimate, drawn as one."""
    measured = chart["series"][0]["values"]
    last = next((value for value in reversed(measured) if value is not None), None)
    if last is None:
        return
    begin = chart["x"][-1]
    least, most = FORECAST_S
    ahead = min(max(_deadline(eviction, begin) - begin + 30, least), most)
    chart["now"], chart["shaded"] = begin, [{"from": begin, "to": None, "label": "estimate"}]
    chart["x"] += [begin + ahead * 0.1, begin + ahead]
    gaps: list[float | None] = [None] * (len(measured) - 1)
    measured += [None, None]
    chart["series"].append(
        {"label": "if kept", "values": [*gaps, last, last, last], "look": "forecast"}
    )
    after = eviction.evidence.get("p99_after_ms")
    if after is not None and chart["unit"] == "ms":
        chart["series"].append(
            {"label": "if evicted", "values": [*gaps, last, after, after], "look": "outcome"}
        )


def _deadline(eviction: Eviction, otherwise: float) -> float:
    return eviction.deadline_at.timestamp() if eviction.deadline_at else otherwise


def _limits(
    eviction: Eviction, signal: Signal, service: OnlineService | None
) -> list[dict[str, Any]]:
    threshold = policies.rules_for(eviction.gpu.node.pool).thresholds.get(signal)
    if signal is Signal.ONLINE_P99:
        return _latency_limits(threshold, service)
    if threshold is None or signal not in _IN_PERCENT:
        return []
    return [
        {"at": threshold.lower, "label": "busy", "look": "warn", "side": "left"},
        {"at": threshold.upper, "label": "evict", "look": "limit", "side": "left"},
    ]


def _latency_limits(
    threshold: Threshold | None, service: OnlineService | None
) -> list[dict[str, Any]]:
    if service is None or service.slo_p99_ms is None:
        return []
    slo = service.slo_p99_ms
    lines = [{"at": slo, "label": f"SLO {slo:g} ms", "look": "slo", "side": "left"}]
    if threshold:
        at = slo * threshold.upper
        lines.append({"at": at, "label": "evict", "look": "limit", "side": "left"})
    return lines


def _marks(eviction: Eviction, now: datetime) -> list[dict[str, Any]]:
    since = now - timedelta(seconds=SPAN_S)
    held = NodeEvent.objects.filter(
        gpu=eviction.gpu_id, kind__in=(EventKind.FROZEN, EventKind.THAWED), at__gt=since
    ).order_by("at")
    marks = [{"at": row.at.timestamp(), "label": row.kind, "look": "warn"} for row in held[:6]]
    marks += [_mark(at, label) for at, label in _decisions(eviction) if at and at > since]
    return sorted(marks, key=lambda mark: float(str(mark["at"])))


def _decisions(eviction: Eviction) -> list[tuple[datetime | None, str]]:
    if eviction.state == State.PROPOSED and eviction.deadline_at:
        runs = "runs by itself" if eviction.default == Default.RUN else "is dropped"
        return [(eviction.deadline_at, f"{eviction.deadline_at:%H:%M}, {runs}")]
    if eviction.dispatch_at is None:
        return [(eviction.proposed_at, "stop began"), (eviction.ended_at, "ended")]
    return [(eviction.dispatch_at, "sent"), (eviction.ended_at, "ended")]


def _mark(at: datetime, label: str) -> dict[str, Any]:
    return {"at": at.timestamp(), "label": label, "look": "mark"}
