"""The bins of services with what was foretold of them, for a day: a row a service and bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from console.forecasts.members import Members
from console.forecasts.models import ServiceBin
from console.forecasts.packing import packed, unpacked
from console.forecasts.series import BINS, HORIZONS, KINDS, Floats, Forecast


def keep(
    number: int, of: Members, percent: Floats, told: Forecast, known_hours: NDArray[np.int64]
) -> None:
    """Two queries: the first to come is kept, those that are a day old go."""
    rows = zip(
        of.services.tolist(),
        of.counts.tolist(),
        percent.tolist(),
        packed(told.middle),
        packed(told.high),
        told.kind.tolist(),
        known_hours.tolist(),
        strict=True,
    )
    ServiceBin.objects.bulk_create(
        [
            ServiceBin(
                service_id=service,
                number=number,
                percent=None if mean != mean else mean,
                gpus=gpus,
                middle=middle.tobytes(),
                high=high.tobytes(),
                kind=kind,
                known_hours=hours,
            )
            for service, gpus, mean, middle, high, kind, hours in rows
        ],
        ignore_conflicts=True,
    )
    ServiceBin.objects.filter(number__lte=number - BINS).delete()


@dataclass(frozen=True)
class Day:
    """Bins `first` and on, one a row, NaN where nothing is known; `kind` and `known_hours` of the
    newest that is kept, None without any."""

    first: int
    percent: Floats
    middle: Floats
    high: Floats
    kind: str | None
    known_hours: int | None
    newest: int | None


def day(service_id: int, end: int) -> Day:
    """The day before bin `end`. One query."""
    first = end - BINS
    percent = np.full(BINS, np.nan, np.float32)
    middle = np.full((BINS, len(HORIZONS)), np.nan, np.float32)
    high = middle.copy()
    rows = ServiceBin.objects.filter(service=service_id, number__gte=first, number__lt=end)
    found: Sequence[ServiceBin] = list(rows.order_by("number"))
    for row in found:
        at = row.number - first
        percent[at] = np.nan if row.percent is None else row.percent
        middle[at], high[at] = _percent(row.middle), _percent(row.high)
    if not found:
        return Day(first, percent, middle, high, None, None, None)
    last = found[-1]
    return Day(first, percent, middle, high, KINDS[last.kind], last.known_hours, last.number)


def _percent(values: bytes | memoryview[int]) -> Floats:
    return unpacked(np.frombuffer(values, np.uint8))
