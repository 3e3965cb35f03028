"""What a forecast is made from, and what it says. Pure (numpy).

The maths are in workers/reallocation/forecast.py. Times are of the world clock, which is the clock
on the wall everywhere but in the demo. Values are percent of a GPU's SMs, NaN where unknown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]

BIN_S: Final = 300
HOUR_S: Final = 3_600
# Bins ahead: 5, 15, 30 and 60 minutes. A share must hold for about as long as a job is left alone.
HORIZONS: Final = (1, 3, 6, 12)
AHEAD: Final = max(HORIZONS)
# How much of the past is looked at: a day of bins, four weeks of hours.
BINS: Final = 288
HOURS: Final = 24 * 28
# The part of the coming bins that lies below `Forecast.high`.
QUANTILE: Final = 0.95
# What a forecast rests on, from nothing at all to the same hour of the week.
KINDS: Final = ("none", "peak", "level", "peers", "daily", "weekly")
# Hours that must be known before the same hour of the day, or of the week, is heeded.
DAILY_HOURS: Final = 20
WEEKLY_HOURS: Final = 270

_WEEK_HOURS: Final = 7 * 24
# Unix time began on a Thursday.
_EPOCH_HOUR: Final = 3 * 24


@dataclass(frozen=True)
class Past:
    """What n GPUs did, oldest first.

    `bins` [n, t]: means over `BIN_S`, the last has just ended. `hours` [n, k]: means over hours,
    the last is the last whole one. `bin_hour` [t + AHEAD] and `hour_hour` [k] are the local hours
    of the week (0 = Monday 0:00) of their middles, those of the bins ahead included. `peers` [n]
    numbers the services; -1: has no peers.
    """

    bins: Floats
    hours: Floats
    bin_hour: Floats
    hour_hour: Floats
    peers: Ints


@dataclass(frozen=True)
class Forecast:
    """`middle` and `high` [n, len(HORIZONS)]; `kind` [n]: index in KINDS.

    Of the means over the bins that are h ahead, one in twenty is expected above `high`.
    """

    middle: Floats
    high: Floats
    kind: NDArray[np.uint8]


def hours_of_week(at_s: NDArray[np.float64], zone: tzinfo = UTC) -> Floats:
    """Local hours since Monday 0:00 of Unix times, 0 ≤ h < 168; clocks that change are followed."""
    if zone is UTC:
        return ((at_s / HOUR_S + _EPOCH_HOUR) % _WEEK_HOURS).astype(np.float32)
    return np.array([_hour_of_week(datetime.fromtimestamp(at, zone)) for at in at_s], np.float32)


def _hour_of_week(at: datetime) -> float:
    return at.weekday() * 24 + at.hour + at.minute / 60 + at.second / HOUR_S
