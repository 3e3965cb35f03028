"""Charts of a range of the past, as options of static/js/charts/line.js. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from agents.wire.limits import MAX_SKEW_S
from agents.wire.names import Signal
from console.history.points import Band, Chart, Values
from console.telemetry.scales import GIB

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
# By the value of the address: how far back, and the word of the button.
RANGES: Final[Mapping[str, tuple[int, str]]] = {
    "15m": (15 * MINUTE_S, "15 min"),
    "1h": (HOUR_S, "1 h"),
    "6h": (6 * HOUR_S, "6 h"),
    "24h": (24 * HOUR_S, "24 h"),
    "7d": (7 * 24 * HOUR_S, "7 d"),
    "90d": (90 * 24 * HOUR_S, "90 d"),
}
USUAL: Final = "1h"
# What is younger than its range gets the axis to itself, but for the first minutes.
LEAST_S: Final = 2 * MINUTE_S
# Lines of the table: a chart's points would be hundreds.
LINES: Final = 48
MOST_CLOCK_MARKS: Final = 8


@dataclass(frozen=True)
class Drawn:
    """One chart: `name` of `history.kept`, as `word`, in `unit`, each `per` wire units."""

    name: str
    word: str
    unit: str
    digits: int = 0
    per: float = 1.0
    range: tuple[float, float | None] = (0, None)


P99: Final = Drawn(Signal.ONLINE_P99.value, "Online p99", "ms")
QPS: Final = Drawn(Signal.ONLINE_QPS.value, "Online load", "QPS")
SM: Final = Drawn(Signal.SM_ACTIVITY.value, "SM activity", "%", range=(0, 100))
OFFLINE: Final = Drawn("sm_offline_percent", "SM activity, offline", "%", range=(0, 100))
UTIL: Final = Drawn(Signal.GPU_UTIL.value, "GPU utilisation", "%", range=(0, 100))
MEMORY: Final = Drawn(Signal.MEMORY.value, "Memory", "GiB", 1, GIB)
POWER: Final = Drawn(Signal.POWER.value, "Power", "W")
OF_GPU: Final = (P99, SM, OFFLINE, UTIL, MEMORY, POWER)
OF_MANY: Final = (SM, OFFLINE, UTIL, MEMORY, POWER)
OF_SERVICE: Final = (P99, QPS, SM, OFFLINE)


@dataclass(frozen=True)
class Card:
    """A chart with its options, and what the reader of a screen is told of it."""

    drawn: Drawn
    options: dict[str, Any]

    @property
    def json(self) -> str:
        return json.dumps(self.options, separators=(",", ":"))

    @property
    def key(self) -> str:
        return f"past-{self.drawn.name}"


@dataclass(frozen=True)
class Line:
    """A row of the table: a value for each chart, None for a gap."""

    at: datetime
    cells: list[tuple[float | None, str, int]]
    by_receipt: bool = False


@dataclass(frozen=True)
class Span:
    """From when to when the charts are, in Unix seconds. `young`: all of what is kept began within
    the range, so that there is nothing before; `began`: when, once that is known."""

    key: str
    start: float
    end: float
    young: bool
    began: float | None = None

    @property
    def word(self) -> str:
        return RANGES[self.key][1]


def span(asked: str, oldest: float | None, now: float) -> Span:
    """The range that the address names, else the usual one, or the least that holds all there is.

    `oldest`: when what is kept begins; None: nothing is.
    """
    key = asked if asked in RANGES else _fitting(0.0 if oldest is None else now - oldest)
    start = now - RANGES[key][0]
    if oldest is None or oldest <= start:
        return Span(key, start, now, young=False)
    return Span(key, min(oldest, now - LEAST_S), now, young=True)


def _fitting(age_s: float) -> str:
    return next(key for key, (far, _) in RANGES.items() if key == USUAL or age_s <= far)


def trimmed(span: Span, chart: Chart) -> Span:
    """Without what is empty before the first sample, where there is nothing before: the block that
    holds it may begin up to an hour earlier."""
    first = next((at for at, some in zip(chart.times, chart.samples, strict=True) if some), None)
    if not span.young or first is None:
        return span
    return replace(span, start=max(span.start, min(first, span.end - LEAST_S)), began=first)


def cards(
    chart: Chart,
    drawn: Sequence[Drawn],
    span: Span,
    thresholds: Mapping[str, list[dict[str, Any]]],
    marks: Sequence[dict[str, Any]],
) -> list[Card]:
    """`thresholds` by the name of the chart, in its unit."""
    return [
        Card(
            one,
            {
                "x": chart.times,
                "from": span.start,
                "to": span.end,
                "gap_s": 1.5 * chart.period_s,
                "series": _series(chart.series[one.name], one),
                "bands": [[1, 2]],
                "unit": one.unit,
                "digits": one.digits,
                "range": list(one.range),
                "thresholds": thresholds.get(one.name, []),
                "marks": list(marks),
                "empty": "Nothing is recorded of this range; a minute is, once it is over",
            },
        )
        for one in drawn
    ]


def _series(band: Band, drawn: Drawn) -> list[dict[str, Any]]:
    shown = {"mean": band.mean, "low": band.low, "high": band.high}
    looks = {"mean": "main", "low": "faint", "high": "faint"}
    return [
        {"label": which, "values": in_unit(values, drawn), "look": looks[which]}
        for which, values in shown.items()
    ]


def in_unit(values: Values, drawn: Drawn) -> Values:
    return [None if value is None else round(value / drawn.per, 3) for value in values]


def lines(chart: Chart, drawn: Sequence[Drawn]) -> list[Line]:
    """One point in so many, newest first: the table that stands for the pictures."""
    every = -(-len(chart.times) // LINES)
    columns = [(one, in_unit(chart.series[one.name].mean, one)) for one in drawn]
    return [
        Line(
            datetime.fromtimestamp(chart.times[at], UTC),
            [(values[at], one.unit, one.digits) for one, values in columns],
            chart.by_receipt[at],
        )
        for at in range(len(chart.times) - 1, -1, -every)
    ]


def clock_marks(chart: Chart) -> list[dict[str, Any]]:
    """Where times begin to be those of receipt, and where they end to be."""
    known = [at for at, samples in enumerate(chart.samples) if samples]
    found: list[dict[str, Any]] = []
    for before, at in zip([None, *known], known, strict=False):
        was = before is not None and chart.by_receipt[before]
        if chart.by_receipt[at] != was:
            label = "clock good" if was else "clock off"
            found.append({"at": chart.times[at], "label": label, "look": "warn"})
    return found[:MOST_CLOCK_MARKS]


def clock(chart: Chart) -> str:
    """In words: how much of it is dated by its receipt; "" where nothing is."""
    known = sum(1 for samples in chart.samples if samples)
    off = sum(chart.by_receipt)
    if not off:
        return ""
    how_many = "all" if off == known else f"{off} of {known}"
    return (
        f"{how_many} points have samples dated by their receipt, for the clock of their node was"
        f" off by more than {MAX_SKEW_S:g} s"
    )


def resolution(chart: Chart) -> str:
    """In words: what one point of the chart is."""
    if chart.period_s == 1:
        return "each second as it was; shaded to the worst of it"
    made_of = "" if chart.tier == _period(chart.period_s) else f" (from {chart.tier})"
    return f"means of {_period(chart.period_s)}{made_of}, lowest to highest shaded"


def _period(seconds: int) -> str:
    for unit_s, unit in ((HOUR_S, "h"), (MINUTE_S, "min")):
        if seconds >= unit_s and seconds % unit_s == 0:
            return f"{seconds // unit_s} {unit}"
    return f"{seconds} s"
