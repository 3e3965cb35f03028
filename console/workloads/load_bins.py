"""p99 with and without a neighbour, compared only where the load was alike. Pure.

Minutes that follow each other are alike, so they are no independent observations: the minutes of
one instance in one block of ten, on one side and in one load bin count as one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, variance
from typing import Final

BINS: Final = 5
BLOCK_S: Final = 600
# On each side of a bin; with fewer there is no saying.
ENOUGH: Final = 8
# Student's t for 95 % at 7 degrees of freedom, the fewest that Welch's test has with ENOUGH on
# each side: intervals are a little too wide, never too narrow.
_T: Final = 2.365


@dataclass(frozen=True)
class Minute:
    """Of one instance: its p99 and load, with a neighbour all the while, or none all the while."""

    instance: int
    at: float
    qps: float
    p99_ms: float
    beside: bool


@dataclass(frozen=True)
class Difference:
    """With a neighbour less without, in ms, and its 95 % interval."""

    ms: float
    half_width_ms: float

    @property
    def low_ms(self) -> float:
        return self.ms - self.half_width_ms

    @property
    def high_ms(self) -> float:
        return self.ms + self.half_width_ms

    @property
    def is_clear(self) -> bool:
        """The interval does not hold 0."""
        return self.low_ms > 0 or self.high_ms < 0


@dataclass(frozen=True)
class Bin:
    """Load from `low_qps` to `high_qps` of one instance; n counts blocks. `difference` None: not
    enough data."""

    low_qps: float
    high_qps: float
    with_ms: float | None
    without_ms: float | None
    n_with: int
    n_without: int
    difference: Difference | None
    variance: float = 0.0


@dataclass(frozen=True)
class Comparison:
    """`difference` is that of the bins that have one, weighted by how often a neighbour was there
    at that load; None: no bin has."""

    bins: Sequence[Bin]
    difference: Difference | None


def compare(minutes: Sequence[Minute]) -> Comparison:
    most = max((minute.qps for minute in minutes), default=0.0)
    if most <= 0:
        return Comparison([], None)
    width = most / BINS
    blocks: dict[tuple[int, bool], list[float]] = defaultdict(list)
    for (number, beside), p99_ms in _blocks(minutes, width):
        blocks[number, beside].append(p99_ms)
    bins = [
        _bin(number * width, (number + 1) * width, blocks[number, True], blocks[number, False])
        for number in range(BINS)
    ]
    return Comparison(bins, _together([one for one in bins if one.difference]))


def _blocks(minutes: Iterable[Minute], width: float) -> Iterable[tuple[tuple[int, bool], float]]:
    """(bin, beside) and the mean p99 of each block."""
    together: dict[tuple[int, int, int, bool], list[float]] = defaultdict(list)
    for one in minutes:
        number = min(BINS - 1, int(one.qps / width))
        together[number, one.instance, int(one.at // BLOCK_S), one.beside].append(one.p99_ms)
    return [((key[0], key[3]), fmean(values)) for key, values in together.items()]


def _bin(low_qps: float, high_qps: float, beside: list[float], alone: list[float]) -> Bin:
    error = difference = None
    if min(len(beside), len(alone)) >= ENOUGH:
        error = variance(beside) / len(beside) + variance(alone) / len(alone)
        difference = Difference(fmean(beside) - fmean(alone), _T * math.sqrt(error))
    return Bin(
        low_qps,
        high_qps,
        fmean(beside) if beside else None,
        fmean(alone) if alone else None,
        len(beside),
        len(alone),
        difference,
        error or 0.0,
    )


def _together(bins: Sequence[Bin]) -> Difference | None:
    total = sum(one.n_with for one in bins)
    if not total:
        return None
    weights = [one.n_with / total for one in bins]
    ms = sum(w * one.difference.ms for w, one in zip(weights, bins, strict=True) if one.difference)
    error = sum(w * w * one.variance for w, one in zip(weights, bins, strict=True))
    return Difference(ms, _T * math.sqrt(error))
