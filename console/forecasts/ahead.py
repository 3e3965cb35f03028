"""What pages tell of the online load ahead of a GPU or service: a sentence, a table, a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings

from console import figures
from console.forecasts import gathering, history, outlook
from console.forecasts.outlook import Outlook
from console.forecasts.packing import unpacked
from console.forecasts.series import AHEAD, BIN_S, HORIZONS, HOUR_S, KINDS, Floats

# Bins of the chart: six hours of the world clock.
BEFORE: Final = 6 * HOUR_S // BIN_S
# One line in so many bins, in the table of what was measured.
LINE: Final = 6

_RESTS_ON: Final = {
    "peak": "Less than an hour is known of it, so the highest seen is expected again.",
    "level": "It rests on the level of the last hours, and on how far that was off.",
    "peers": "It rests on its level, and on what the other GPUs of its service do now.",
    "daily": "It rests on the same hour of the days before, and on how today differs.",
    "weekly": "It rests on the same hour of the weeks before, and on how today differs.",
}

Values = Sequence[float | None]


@dataclass(frozen=True)
class Step:
    """One horizon: `in_s` real seconds ahead, percent."""

    in_s: float
    middle: float | None
    high: float | None


@dataclass(frozen=True)
class Measured:
    """A bin that is over, percent; None where nobody measured."""

    at: datetime
    percent: float | None


@dataclass(frozen=True)
class Ahead:
    """`bins` are those before the last that has ended, oldest first, of `width_s` real seconds."""

    outlook: Outlook | None
    bins: Sequence[Measured]
    width_s: float

    @property
    def steps(self) -> list[Step]:
        told = self.outlook
        if told is None or told.kind == KINDS[0]:
            return []
        pairs = zip(HORIZONS, told.middle, told.high, strict=True)
        return [Step(h * self.width_s, middle, high) for h, middle, high in pairs]

    @property
    def lines(self) -> list[Measured]:
        """Every so often one, newest first."""
        return list(self.bins[::-1][::LINE])

    @property
    def span_s(self) -> float:
        """Real seconds that are looked ahead."""
        return AHEAD * self.width_s

    @property
    def before(self) -> int:
        """The bins that are drawn: from the first that is known on, as many as ahead at least."""
        unknown = next((at for at, bin in enumerate(self.bins) if bin.percent is not None), 0)
        return min(len(self.bins), max(AHEAD, len(self.bins) - unknown))

    @property
    def before_s(self) -> float:
        return self.before * self.width_s

    @property
    def rests_on(self) -> str:
        return _RESTS_ON.get(self.outlook.kind, "") if self.outlook else ""

    def left_percent(self, reserve_percent: float) -> float | None:
        """What online and its reserve leave of the SMs at the highest that is expected."""
        peak = self.outlook.peak_percent if self.outlook else None
        return None if peak is None else max(0.0, 100.0 - peak - reserve_percent)


def load(gpu_id: int, now: datetime) -> Ahead:
    """One query, and one read of Redis; without Redis nothing is foretold."""
    end = gathering.bin_number(now.timestamp())
    percent = unpacked(history.of_gpu(gpu_id, end - BEFORE, end))
    return Ahead(outlook.of(gpu_id), measured(percent, end), bin_width_s())


def measured(percent: Floats, end: int) -> list[Measured]:
    """The bins before `end`, each at its middle."""
    ends = [gathering.ended_at(end - back) for back in range(len(percent), 0, -1)]
    return [
        Measured(datetime.fromtimestamp(at - bin_width_s() / 2, UTC), known(value))
        for at, value in zip(ends, percent.tolist(), strict=True)
    ]


def known(value: float) -> float | None:
    return None if value != value else value


def bin_width_s() -> float:
    """Real seconds."""
    return BIN_S / settings.WORLD_CLOCK


def chart(ahead: Ahead) -> dict[str, Any]:
    """As static/js/charts/line.js wants it."""
    times = [one.at.timestamp() for one in ahead.bins]
    known = [one.percent for one in ahead.bins]
    last = known[-1] if known else None
    told = ahead.outlook
    now = told.at if told else times[-1] + ahead.width_s / 2
    steps = ahead.steps
    later = [now, *(now + step.in_s for step in steps)] if steps else []
    blank: list[float | None] = [None] * len(times)
    measured = [*known, last, *([None] * len(steps))] if steps else known
    return {
        "x": [*times, *later],
        "series": [
            {"label": "Measured", "values": measured, "fill": True},
            _line("Expected", blank, last, [step.middle for step in steps]),
            _line("95 % below", blank, last, [step.high for step in steps], look="ghost"),
        ],
        "bands": [[1, 2]],
        "unit": "%",
        "digits": 0,
        "range": [0, 100],
        "from": times[-ahead.before],
        "to": now + ahead.span_s,
        "now": now,
        "shaded": [{"from": now, "to": None, "label": "forecast"}] if steps else [],
        "empty": "Nothing measured yet: a bin is kept "
        f"every {figures.span(ahead.width_s)} from now on",
    }


def _line(
    label: str, blank: list[float | None], last: float | None, ahead: Values, look: str = "forecast"
) -> dict[str, Any]:
    """From the last that was measured on."""
    begins = [last, *ahead] if ahead else []
    return {"label": label, "values": [*blank, *begins], "look": look}
