"""The three charts of the Overview and the words beside them, as the browser takes them. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from console import figures
from console.overview.history import Baseline, FleetPoint, Mark
from console.overview.windows import Window

# The line breaks where more than this many samples in a row are missing.
GAP_SAMPLES: Final = 4
POINTS: Final = "points"


def charts(
    points: Sequence[FleetPoint], marks: Sequence[Mark], window: Window, now: datetime
) -> dict[str, Any]:
    """Options of `lineChart` by name: `sm`, `gained`, `p99`; one time axis, the same marks."""
    shown = [mark for mark in marks if mark.at > now - window.span]
    common = {
        "x": [round(point.at.timestamp(), 1) for point in points],
        "marks": [{"at": mark.at.timestamp(), "label": mark.word} for mark in shown],
        "shaded": _before(shown),
        "gap_s": _gap_s(points),
    }
    named = [
        {"at": mark.at.timestamp(), "label": f"{mark.word}, {mark.at:%H:%M}, {mark.actor}"}
        for mark in shown
    ]
    slo = [{"at": 100, "label": "SLO", "look": "slo"}]
    return {
        "sm": common
        | {
            "series": [_series("SM activity", points, lambda p: p.sm_activity_percent, fill=True)],
            "marks": named,
            "unit": "%",
            "range": [0, None],
        },
        "gained": common
        | {
            "series": [_series("Gained", points, lambda p: p.gain.net, fill=True)],
            "range": [0, None],
        },
        "p99": common
        | {
            "series": [
                _series("median service", points, lambda p: p.p99_percent_of_slo),
                _series(
                    "worst service", points, lambda p: p.worst_p99_percent_of_slo, look="ghost"
                ),
            ],
            "thresholds": slo,
            "unit": "%",
            "range": [0, None],
        },
    }


def words(points: Sequence[FleetPoint], before: Baseline) -> dict[str, str | float | None]:
    """What stands beside the figures, by the names that `data-live` uses."""
    last = points[-1] if points else None
    gain = last.gain if last else None
    return {
        "sm_was": _was(before.sm_activity_percent, "%", 1),
        "sm_gain": _gain(last.sm_activity_percent if last else None, before.sm_activity_percent),
        "gained": gain.net if gain else None,
        "gained_run": gain.run if gain else None,
        "gained_lost": gain.lost if gain else None,
        "gained_restarts": gain.restarts if gain else None,
        "p99_was": _was(before.p99_percent_of_slo, "%", 0),
        "p99_gain": _gain(last.p99_percent_of_slo if last else None, before.p99_percent_of_slo),
    }


def before(baseline: Baseline) -> dict[str, float | None]:
    """What was before sharing, under the names that the live summary uses: a page that stays open
    says how far its figures are from it."""
    return {
        "sm_activity": baseline.sm_activity_percent,
        "p99_percent": baseline.p99_percent_of_slo,
    }


def present(last: FleetPoint) -> dict[str, float | None]:
    """The newest sample under the names that the live summary uses."""
    return {
        "reporting": last.reporting,
        "sm_activity": last.sm_activity_percent,
        "gpu_util": last.gpu_util_percent,
        "memory": last.memory_percent,
        "p99_percent": last.p99_percent_of_slo,
    }


def table(points: Sequence[FleetPoint], rows: int = 12) -> list[FleetPoint]:
    """`rows` of the points, evenly spread and ending with the newest: the charts as a table."""
    step = max(1, len(points) // rows)
    return list(points[::-1][::step][:rows])


def _series(
    label: str,
    points: Sequence[FleetPoint],
    value: Callable[[FleetPoint], float | None],
    *,
    fill: bool = False,
    look: str = "main",
) -> dict[str, Any]:
    values = (value(point) for point in points)
    return {
        "label": label,
        "values": [v if v is None else round(v, 3) for v in values],
        "fill": fill,
        "look": look,
    }


def _before(marks: Sequence[Mark]) -> list[dict[str, Any]]:
    """The ground of the time before sharing, when it began inside the window."""
    first = next(iter(marks), None)
    if first is None or not first.on:
        return []
    return [{"from": None, "to": first.at.timestamp(), "label": "before"}]


def _gap_s(points: Sequence[FleetPoint]) -> float | None:
    """Four times the usual distance between samples."""
    if len(points) < 3:
        return None
    times = [point.at.timestamp() for point in points]
    distances = sorted(b - a for a, b in itertools.pairwise(times))
    return GAP_SAMPLES * distances[len(distances) // 2]


def _was(value: float | None, unit: str, digits: int) -> str:
    return "" if value is None else f"was {figures.quantity(value, unit, digits)} before sharing,"


def _gain(value: float | None, before: float | None) -> str:
    if value is None or before is None:
        return ""
    return figures.signed(value - before, POINTS)
