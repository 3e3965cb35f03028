"""Ten minutes of one service over all its instances, as options of a chart."""

from __future__ import annotations

import warnings
from collections.abc import Sequence, Set
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agents.wire.names import Signal
from console.telemetry.history import SPAN_S, Series
from console.telemetry.latest import STALE_S
from console.workloads.models import OnlineService

# A guest that uses less of a GPU than this is not there, or frozen. Percent of the SMs.
NEIGHBOUR_PERCENT: Final = 1.0
# More instances than this are not drawn one by one; these stand for all.
MOST: Final = 48

Rows = npt.NDArray[np.float64]


def p99(service: OnlineService, instances: Sequence[Series]) -> dict[str, Any]:
    """The mean p99 of the instances beside a guest and of those alone, moment by moment."""
    instances = aligned(instances)
    latency = _stacked(instances, Signal.ONLINE_P99)
    beside = _stacked(instances, "sm_offline_percent") >= NEIGHBOUR_PERCENT
    slo = service.slo_p99_ms
    return _common(instances) | {
        "series": [
            {"label": "With a neighbour", "values": _mean(latency, beside), "look": "main"},
            {"label": "Alone", "values": _mean(latency, ~beside), "look": "ghost"},
        ],
        "unit": "ms",
        "range": [0, None],
        "thresholds": [{"at": slo, "label": "SLO", "look": "slo"}] if slo else [],
    }


def load(instances: Sequence[Series]) -> dict[str, Any]:
    """The load of all instances together; a gap where one of them was not heard."""
    instances = aligned(instances)
    total = _stacked(instances, Signal.ONLINE_QPS).sum(axis=0)
    return _common(instances) | {
        "series": [{"label": "Load", "values": _values(total), "fill": True}],
        "unit": "/s",
        "range": [0, None],
    }


def aligned(instances: Sequence[Series]) -> Sequence[Series]:
    """The moments that all of them have: a second may have passed between reading two of them."""
    if len({tuple(one.times) for one in instances}) <= 1:
        return instances
    shared = set.intersection(*(set(one.times) for one in instances))
    return [_only(one, shared) for one in instances]


def _only(series: Series, times: Set[float]) -> Series:
    rows = [row for row, time in enumerate(series.times) if time in times]
    values = {name: [column[row] for row in rows] for name, column in series.values.items()}
    return Series(series.period_s, [series.times[row] for row in rows], values)


def _common(instances: Sequence[Series]) -> dict[str, Any]:
    period_s = instances[0].period_s if instances else 1
    return {
        "x": instances[0].times if instances else [],
        "window_s": SPAN_S,
        "gap_s": max(STALE_S, 3 * period_s),
        "empty": "No samples yet: they are kept from the moment this web process saw the GPUs",
    }


def _stacked(instances: Sequence[Series], name: str) -> Rows:
    """One row an instance, of the same moments; nan where it was not heard."""
    if not instances:
        return np.empty((0, 0))
    rows = [series.values[name] for series in instances]
    return np.array(rows, dtype=np.float64)


def _mean(values: Rows, chosen: npt.NDArray[np.bool_]) -> list[float | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a moment without any value is a gap
        return _values(np.nanmean(np.where(chosen, values, np.nan), axis=0))


def _values(row: Rows) -> list[float | None]:
    return [None if value != value else round(value, 2) for value in row.tolist()]
