"""From samples of running pairs to one observation a window. Pure.

A window is clean when the job ran all through it at the limits that a prediction supposes: sampled
live each time, never held, its SM share unchanged, its duty steady and at that share. Whatever
breaks it drops it whole, and the next sample begins another.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

# A sample this much later than the one before leaves a gap. Our choices, this and the next two.
MOST_GAP_S: Final = 30.0
# Percent of the card: how far duty may be from the share, and wander.
STEADY_PERCENT: Final = 5.0
LEAST_SAMPLES: Final = 3


class Reading(msgspec.Struct, frozen=True, array_like=True):
    """One sample of a pair; percent of the card. `p99_ratio` None: not known against alone."""

    throughput: float
    duty_percent: float
    sm_percent: float
    util_percent: float
    occupancy_percent: float | None
    bandwidth_percent: float
    memory_percent: float
    p99_ratio: float | None = None


class Window(msgspec.Struct, frozen=True, array_like=True):
    """An open window: what was read since it began, at Unix seconds."""

    began_at: float
    last_at: float
    share_percent: float
    readings: tuple[Reading, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A placement as it is now. `held_at`: when it was last held or changed its state."""

    placement: str
    at: float
    share_percent: float
    held_at: float
    reading: Reading


Windows = Mapping[str, Window]


def advance(
    open_: Windows, samples: Iterable[Sample], window_s: float
) -> tuple[dict[str, Window], dict[str, Window]]:
    """The windows open after these samples, and those that are full; both by placement.

    A placement that has no sample this time has none that is open.
    """
    going_on, full = {}, {}
    for sample in samples:
        window = _next(open_.get(sample.placement), sample)
        if window is None:
            continue
        if is_full(window, window_s):
            full[sample.placement] = window
        else:
            going_on[sample.placement] = window
    return going_on, full


def _next(window: Window | None, sample: Sample) -> Window | None:
    """None for a job that is not at its share: it warms up, or the node holds it back."""
    if abs(sample.reading.duty_percent - sample.share_percent) > STEADY_PERCENT:
        return None
    if window is None or _is_broken(window, sample):
        return Window(sample.at, sample.at, sample.share_percent, (sample.reading,))
    if sample.at <= window.last_at:
        return window  # nothing new was heard
    readings = (*window.readings, sample.reading)
    return Window(window.began_at, sample.at, window.share_percent, readings)


def _is_broken(window: Window, sample: Sample) -> bool:
    duties = [reading.duty_percent for reading in (*window.readings, sample.reading)]
    return (
        sample.share_percent != window.share_percent
        or sample.held_at > window.began_at
        or sample.at - window.last_at > MOST_GAP_S
        or max(duties) - min(duties) > STEADY_PERCENT
    )


def is_full(window: Window, window_s: float) -> bool:
    long_enough = window.last_at - window.began_at >= window_s
    return long_enough and len(window.readings) >= LEAST_SAMPLES


def average(window: Window) -> Reading:
    """The mean of each value over the readings that have it."""
    columns = zip(*(msgspec.structs.astuple(one) for one in window.readings), strict=True)
    return msgspec.convert([_mean(column) for column in columns], Reading)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def family_of(job_name: str) -> str:
    """`resnet-31` is one of the `resnet` jobs."""
    return re.sub(r"[-_.]?\d+$", "", job_name) or job_name
