"""What a job does while it is alone on its GPU, averaged over a settled window. Pure.

A second counts when nobody else is on the GPU, the job runs and nothing holds it back. The first
`settle_s` of them are its warm-up. The window that follows is taken when its two halves agree; a
job that never settles is measured all the same, by the busier half of the last window.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any, Final

from agents.sysmonitor.signals import POSITIONS, Values
from agents.wire.messages import Measure
from agents.wire.names import Signal

# Halves of a window whose SM activity differs by no more have settled. Percent of the card.
SETTLED_PERCENT: Final = 10.0
# So many windows are looked at before the job counts as one that never settles.
MOST_WINDOWS: Final = 3
# Of a window's seconds, the least of which something must be known.
LEAST_PART: Final = 0.5
LONGEST_STEP_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Second:
    """What is known of one undisturbed second; percent of the card, None where no source tells.

    `launches` counts since the job began.
    """

    gpu_util_percent: float | None
    sm_percent: float | None = None
    occupancy_percent: float | None = None
    memory_bandwidth_percent: float | None = None
    memory_bytes: int | None = None
    step_s: float | None = None
    launches: int | None = None


def second(
    values: Values, memory_bytes: int | None, step_s: float | None, launches: int | None
) -> Second:
    """Of a sample in wire units. A job may tell any step time; one that cannot be is none."""
    told = step_s is not None and 0.0 < step_s <= LONGEST_STEP_S
    return Second(
        values[POSITIONS[Signal.GPU_UTIL]],
        values[POSITIONS[Signal.SM_ACTIVITY]],
        values[POSITIONS[Signal.SM_OCCUPANCY]],
        values[POSITIONS[Signal.MEMORY_BANDWIDTH]],
        memory_bytes,
        step_s if told else None,
        launches,
    )


@dataclass(frozen=True, slots=True)
class Measuring:
    """A measurement under way; times are monotonic seconds, None before the first second."""

    began_at: float | None = None
    window_at: float | None = None
    windows: int = 0
    seconds: tuple[Second, ...] = ()


NOT_BEGUN: Final = Measuring()


def step(
    under_way: Measuring, wanted: Measure, second: Second | None, now: float
) -> tuple[Measuring, dict[str, Any] | None]:
    """The measurement after this second, and the data of its `job_profiled` once it is done.

    None: the job was disturbed, and all begins anew.
    """
    if second is None:
        return NOT_BEGUN, None
    if under_way.began_at is None:
        return Measuring(began_at=now), None
    if now - under_way.began_at < wanted.settle_s:
        return under_way, None
    if under_way.window_at is None:
        return replace(under_way, window_at=now, seconds=(second,)), None
    grown = replace(under_way, seconds=(*under_way.seconds, second))
    passed_s = now - under_way.window_at
    return _closed(grown, passed_s) if passed_s >= wanted.window_s else (grown, None)


def _closed(full: Measuring, passed_s: float) -> tuple[Measuring, dict[str, Any] | None]:
    """A window that has ended: its result, or the beginning of the next one."""
    again = Measuring(full.began_at, windows=full.windows + 1)
    if len(full.seconds) < LEAST_PART * passed_s:
        return replace(again, windows=full.windows), None
    middle = len(full.seconds) // 2
    halves = full.seconds[:middle], full.seconds[middle:]
    early, late = (_activity(half) for half in halves)
    if abs(early - late) <= SETTLED_PERCENT:
        return NOT_BEGUN, _result(full.seconds, passed_s)
    if again.windows < MOST_WINDOWS:
        return again, None
    return NOT_BEGUN, _result(halves[early < late], passed_s / 2)


def _activity(seconds: Sequence[Second]) -> float:
    """What decides whether it has settled; utilisation where nobody reads SM activity."""
    told = [one.gpu_util_percent if one.sm_percent is None else one.sm_percent for one in seconds]
    return _mean(told) or 0.0


def _result(seconds: Sequence[Second], window_s: float) -> dict[str, Any]:
    """The data of `job_profiled`; memory is the most that was held."""
    counted = [one.launches for one in seconds if one.launches is not None]
    return {
        "window_s": round(window_s, 1),
        "samples": len(seconds),
        "gpu_util_percent": _mean(one.gpu_util_percent for one in seconds),
        "sm_percent": _mean(one.sm_percent for one in seconds),
        "occupancy_percent": _mean(one.occupancy_percent for one in seconds),
        "memory_bandwidth_percent": _mean(one.memory_bandwidth_percent for one in seconds),
        "memory_bytes": max((one.memory_bytes or 0 for one in seconds), default=0) or None,
        "step_s": _mean(one.step_s for one in seconds),
        "launches_per_s": max(0, counted[-1] - counted[0]) / window_s if counted else None,
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
