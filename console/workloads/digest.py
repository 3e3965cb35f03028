"""Percentiles of what a service does, kept as counts of samples in bins. Pure.

A week of samples of a thousand instances is a few hundred counts, and a new sample costs one of
them. Counts fade with a half-life, so that a service that changed is soon known as it is now.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Final

# Bins within one doubling of a value, so that a quantile is at most 1.1 percent too high.
STEPS: Final = 64
HALF_LIFE: Final = timedelta(days=3)
# What is left of a bin when it is forgotten.
LEAST: Final = 0.01
_ZERO: Final = "zero"

# By the name of a quantity, the count of each of its bins; as it is kept in JSON.
Counts = Mapping[str, Mapping[str, float]]


def faded(counts: Counts, passed: timedelta) -> dict[str, dict[str, float]]:
    """The counts after so long without a new sample."""
    kept = 0.5 ** (max(timedelta(), passed) / HALF_LIFE)
    return {
        name: {at: n * kept for at, n in bins.items() if n * kept >= LEAST}
        for name, bins in counts.items()
    }


def add(counts: dict[str, dict[str, float]], name: str, values: Iterable[float | None]) -> None:
    """Counts what is known; a value below zero, or no number, is not."""
    bins = counts.setdefault(name, {})
    for value in values:
        if value is not None and math.isfinite(value) and value >= 0.0:
            at = _bin(value)
            bins[at] = bins.get(at, 0.0) + 1.0


def quantile(counts: Counts, name: str, part: float) -> float | None:
    """The upper end of the bin in which this part of the samples ends; None without any."""
    bins = counts.get(name) or {}
    wanted, passed = part * sum(bins.values()), 0.0
    for at in sorted(bins, key=_value):
        passed += bins[at]
        if passed >= wanted:
            return _value(at)
    return None


def _bin(value: float) -> str:
    return _ZERO if value < 1e-9 else str(math.ceil(math.log2(value) * STEPS - 1e-9))


def _value(at: str) -> float:
    upper: float = 0.0 if at == _ZERO else 2.0 ** (int(at) / STEPS)
    return upper
