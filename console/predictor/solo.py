"""What an online service's p99 is without a neighbour, by its load: the ground for ratios.

Measured on the instances that have no neighbour now: GPUs that are held back, that do not share
yet, or that nothing was placed on. Loads are compared within steps, so that a quiet hour beside a
neighbour is never held against a busy one without.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from statistics import fmean
from typing import Final

from console.predictor.models import SoloLatency

# Parts of the service's peak load.
LOAD_STEP: Final = 0.05
HIGHEST_STEP: Final = 60
# A mean of fewer says too little; beyond this many samples old ones fade. Our choices.
LEAST_SAMPLES: Final = 5
MEMORY_SAMPLES: Final = 500

# Service, GPU model, load step.
Key = tuple[str, str, int]


def load_step(qps: float | None, peak_qps: float | None) -> int | None:
    """None where the load is not known."""
    if qps is None or not peak_qps:
        return None
    return min(HIGHEST_STEP, round(qps / peak_qps / LOAD_STEP))


def known() -> dict[Key, float]:
    """p99 alone in ms, where it was measured often enough."""
    rows = SoloLatency.objects.filter(samples__gte=LEAST_SAMPLES)
    return {(s, m, n): ms for s, m, n, ms in rows.values_list(*_KEY, "p99_ms")}


_KEY: Final = ("service", "gpu_model", "load_step")


def note(measured: Iterable[tuple[Key, float]], now: datetime) -> None:
    """Take in p99 values in ms of instances without a neighbour."""
    fresh = defaultdict[Key, list[float]](list)
    for key, p99_ms in measured:
        fresh[key].append(p99_ms)
    rows = [_updated(row, values, now) for row, values in _rows(fresh)]
    SoloLatency.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=list(_KEY),
        update_fields=["p99_ms", "samples", "at"],
    )


def _rows(fresh: Mapping[Key, list[float]]) -> list[tuple[SoloLatency, list[float]]]:
    services = {service for service, _, _ in fresh}
    before = {
        (row.service, row.gpu_model, row.load_step): row
        for row in SoloLatency.objects.filter(service__in=services)
    }
    return [(before.get(key) or _new(key), values) for key, values in fresh.items()]


def _new(key: Key) -> SoloLatency:
    return SoloLatency(**dict(zip(_KEY, key, strict=True)), p99_ms=0.0, samples=0)


def _updated(row: SoloLatency, values: list[float], now: datetime) -> SoloLatency:
    weight = min(row.samples, MEMORY_SAMPLES)
    mean = (row.p99_ms * weight + fmean(values) * len(values)) / (weight + len(values))
    counts = {"p99_ms": mean, "samples": row.samples + len(values), "at": now}
    same = {name: getattr(row, name) for name in _KEY}
    return SoloLatency(**same, **counts)
