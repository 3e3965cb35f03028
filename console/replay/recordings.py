"""Who has samples of a GPU: the history, this web process, and the events of its evictions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agents.wire import packed, samples
from agents.wire.messages import Samples
from agents.wire.names import SIGNALS, EventKind, Signal
from console.history import ranges
from console.history.points import Band, Chart
from console.inventory.models import Gpu
from console.replay.footage import Reading, Recording, Row
from console.telemetry.history import Series
from console.telemetry.hub import hub
from console.telemetry.models import NodeEvent

HISTORY: Final = "the history"
PROCESS: Final = "this web process"
WINDOW: Final = "the event of the eviction"
# What the ring of a web process keeps as percent of the card, and whose bytes it is.
_OF_CARD: Final = {
    "memory_percent": Signal.MEMORY.value,
    "offline_memory_percent": "offline_memory_bytes",
}


def of_gpu(gpu: Gpu, start: datetime, end: datetime) -> list[Recording]:
    """Two queries, and one for each tier that is read."""
    kept = ranges.samples(gpu.pk, start.timestamp(), end.timestamp())
    return [
        of_history(kept),
        of_process(hub.series(gpu.pk), gpu.memory_bytes),
        *_of_events(gpu, start, end),
    ]


def of_history(chart: Chart) -> Recording:
    points = [
        (at, {name: one for name, band in chart.series.items() if (one := _reading(band, number))})
        for number, at in enumerate(chart.times)
    ]
    return Recording(HISTORY, chart.period_s, points)


def _reading(band: Band, number: int) -> Reading | None:
    last, low, high = band.mean[number], band.low[number], band.high[number]
    if last is None:
        return None
    return Reading(last, last if low is None else low, last if high is None else high)


def of_process(series: Series, card_bytes: int) -> Recording:
    """Only last values: the worst of a second is not kept there."""
    columns = {
        _OF_CARD.get(name, name): (values, card_bytes / 100 if name in _OF_CARD else 1.0)
        for name, values in series.values.items()
    }
    points = [
        (at, {
            name: Reading(value * per, value * per, value * per)
            for name, (values, per) in columns.items()
            if (value := values[number]) is not None
        })
        for number, at in enumerate(series.times)
    ]  # fmt: skip
    return Recording(PROCESS, series.period_s, points)


def _of_events(gpu: Gpu, start: datetime, end: datetime) -> Iterator[Recording]:
    rows = NodeEvent.objects.filter(
        gpu=gpu, kind=EventKind.EVICTION_STARTED, at__gte=start, at__lte=end
    )
    for data in rows.order_by("at").values_list("data", flat=True)[:20]:
        yield from of_event(data)


def of_event(data: Mapping[str, Any]) -> Iterator[Recording]:
    """The seconds that led to an eviction; nothing where the event brought none, or no such."""
    told = samples.of_event(data.get("window"))
    if told is None or told.gpus != 1:
        return
    try:
        rows = _rows(told)
    except ValueError:
        return
    points = [(at, _row(told, row)) for at, row in zip(told.times, rows, strict=True)]
    yield Recording(WINDOW, 1, points)


def _rows(told: Samples) -> npt.NDArray[np.float32]:
    """[second, number]"""
    flat = np.frombuffer(samples.inflate(told), "<f4")
    return flat.reshape(len(told.times), told.fields + 2 * told.signals)


def _row(told: Samples, row: npt.NDArray[np.float32]) -> Row:
    """Fields and signals that this console does not know are skipped."""
    fields = _known(zip(packed.FIELDS, row[: told.fields], strict=False))
    last = _known(zip(SIGNALS, row[told.fields :][: told.signals], strict=False))
    worst = _known(zip(SIGNALS, row[told.fields + told.signals :], strict=False))
    ends = {name: (value, worst.get(name, value)) for name, value in {**fields, **last}.items()}
    return {name: Reading(ends[name][0], min(ends[name]), max(ends[name])) for name in ends}


def _known(pairs: Iterable[tuple[str, np.float32]]) -> dict[str, float]:
    return {str(name): float(value) for name, value in pairs if not np.isnan(value)}
