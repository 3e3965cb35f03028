"""What is known of a GPU's XIDs over a week: which came, and of how much of it anybody can say so.

An XID is told with the second in which it came, so a second that nobody has says nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from agents.wire.names import EventKind, Signal
from console.history import ranges
from console.history.points import Chart
from console.inventory.models import Gpu
from console.telemetry.models import NodeEvent

WEEK: Final = timedelta(days=7)
# Of this much of a week it is said to be known as a whole; the rest is ten minutes.
_WHOLE: Final = 0.999
_PERIOD_S: Final = 900
# The same one, told as a sample and as an event: the sample may be as early as its period.
_SAME_S: Final = 2 * _PERIOD_S


@dataclass(frozen=True)
class Xid:
    """`at` is exact, or the start of the quarter of an hour in which it came."""

    at: datetime
    code: int


@dataclass(frozen=True)
class Xids:
    """Those of the `span_s` before now, newest first; `known_s` of it somebody can speak for."""

    span_s: float
    known_s: float
    found: Sequence[Xid]

    @property
    def is_whole(self) -> bool:
        return self.known_s >= _WHOLE * self.span_s

    @property
    def newest(self) -> Xid | None:
        return self.found[0] if self.found else None


def of(gpu: Gpu, now: datetime) -> Xids:
    """Reads a week of quarters of an hour, and the events of it: a few queries."""
    since = now - WEEK
    points = int(WEEK.total_seconds()) // _PERIOD_S + 1
    name = Signal.XID.value
    chart = ranges.chart(
        ranges.Gpu(gpu.pk), [name], since.timestamp(), now.timestamp(), points, now.timestamp()
    )
    told = NodeEvent.objects.filter(
        gpu=gpu, kind=EventKind.TRANSITION, at__gt=since, data__signal=name
    )
    return week(chart, told.values_list("at", "data"), WEEK.total_seconds())


def week(chart: Chart, told: Iterable[tuple[datetime, object]], span_s: float) -> Xids:
    """`told`: when events told of one, and their data."""
    codes = chart.series[Signal.XID.value].high
    known = zip(chart.times, codes, chart.samples, strict=True)
    seen = [(at, code, samples) for at, code, samples in known if code is not None]
    exact = [Xid(at, code) for at, data in told if (code := _code(data))]
    rough = [Xid(datetime.fromtimestamp(at, UTC), int(code)) for at, code, _ in seen if code]
    others = [one for one in rough if not any(_is_same(one, event) for event in exact)]
    found = sorted([*exact, *others], key=lambda one: one.at, reverse=True)
    return Xids(span_s, min(span_s, float(sum(samples for *_, samples in seen))), found)


def _is_same(rough: Xid, exact: Xid) -> bool:
    after_s = (exact.at - rough.at).total_seconds()
    return rough.code == exact.code and 0 <= after_s <= _SAME_S


def _code(data: object) -> int:
    """0: none that can be read."""
    value = data.get("value") if isinstance(data, dict) else None
    return int(value) if isinstance(value, int | float) and 0 < value < 1_000 else 0
