"""Samples of pools joined to one line for the fleet, and what was before. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

HOUR_S: Final = 3600


@dataclass(frozen=True)
class PoolSample:
    """One pool in one bucket of time. Means are over `reporting` GPUs; totals only grow."""

    at: datetime
    pool_id: int
    reporting: float
    sm_activity_percent: float | None
    gpu_util_percent: float | None
    memory_percent: float | None
    online_p99_slo_ratio: float | None
    online_p99_slo_ratio_worst: float | None
    equivalent_gpu_s_total: float
    lost_work_s_total: float
    restart_s_total: float


@dataclass(frozen=True)
class Gain:
    """GPU-hours of the world clock since the first sample: run, and what evictions cost."""

    run: float
    lost: float
    restarts: float

    @property
    def net(self) -> float:
        return self.run - self.lost - self.restarts


@dataclass(frozen=True)
class FleetPoint:
    """All pools at one moment. None: no pool reported it."""

    at: datetime
    reporting: int
    sm_activity_percent: float | None
    gpu_util_percent: float | None
    memory_percent: float | None
    p99_percent_of_slo: float | None
    worst_p99_percent_of_slo: float | None
    gain: Gain


@dataclass(frozen=True)
class Baseline:
    """Means of the time before sharing began; None where nothing was measured."""

    sm_activity_percent: float | None = None
    gpu_util_percent: float | None = None
    memory_percent: float | None = None
    p99_percent_of_slo: float | None = None


@dataclass(frozen=True)
class Mark:
    """Sharing went on or off at this moment, in one pool or several at once."""

    at: datetime
    on: bool
    actor: str

    @property
    def word(self) -> str:
        return "Sharing on" if self.on else "Sharing off"


def fleet(samples: Iterable[PoolSample]) -> list[FleetPoint]:
    """`samples` in ascending time, joined per moment.

    A pool that is missing from a moment keeps its last totals: the sum of what was gained never
    falls because somebody was late.
    """
    by_moment: dict[datetime, list[PoolSample]] = {}
    for sample in samples:
        by_moment.setdefault(sample.at, []).append(sample)
    first: dict[int, PoolSample] = {}
    last: dict[int, PoolSample] = {}
    points = []
    for at, group in by_moment.items():
        for sample in group:
            first.setdefault(sample.pool_id, sample)
            last[sample.pool_id] = sample
        points.append(_point(at, group, _gain(first, last)))
    return points


def baseline(rows: Sequence[tuple[int, Mapping[str, float | None]]]) -> Baseline:
    """One baseline from those of pools, weighed by their GPUs: rows of (gpus, stored figures)."""

    def mean(key: str) -> float | None:
        return weighted((figures.get(key), gpus) for gpus, figures in rows)

    return Baseline(
        mean("sm_activity_percent"),
        mean("gpu_util_percent"),
        mean("memory_percent"),
        _percent(mean("online_p99_slo_ratio")),
    )


def weighted(pairs: Iterable[tuple[float | None, float]]) -> float | None:
    """The mean of the values that exist; None when none does."""
    known = [(value, weight) for value, weight in pairs if value is not None and weight > 0]
    total = sum(weight for _, weight in known)
    return sum(value * weight for value, weight in known) / total if total else None


def _point(at: datetime, group: Sequence[PoolSample], gain: Gain) -> FleetPoint:
    def mean(name: str) -> float | None:
        return weighted((getattr(sample, name), sample.reporting) for sample in group)

    return FleetPoint(
        at,
        round(sum(sample.reporting for sample in group)),
        mean("sm_activity_percent"),
        mean("gpu_util_percent"),
        mean("memory_percent"),
        _percent(mean("online_p99_slo_ratio")),
        _percent(_most(sample.online_p99_slo_ratio_worst for sample in group)),
        gain,
    )


def _gain(first: Mapping[int, PoolSample], last: Mapping[int, PoolSample]) -> Gain:
    pairs = [(first[pool], last[pool]) for pool in last]
    return Gain(
        sum(b.equivalent_gpu_s_total - a.equivalent_gpu_s_total for a, b in pairs) / HOUR_S,
        sum(b.lost_work_s_total - a.lost_work_s_total for a, b in pairs) / HOUR_S,
        sum(b.restart_s_total - a.restart_s_total for a, b in pairs) / HOUR_S,
    )


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _percent(ratio: float | None) -> float | None:
    return None if ratio is None else ratio * 100
