"""How long one signal has been where it is, against its two limits. Pure.

Runs are counted on wire samples only and in seconds actually watched: a gap in the samples, a
restart of the agent or a missing value never completes a dwell. Going worse needs the *last*
values of consecutive seconds, so one noisy sample goes nowhere; going better needs the *worst*
values, so one good sample does not either.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from agents.sysmonitor.signals import worse
from agents.wire.names import Signal
from agents.wire.policy import Threshold

# Part of the way between the two limits by which a signal must be under the lower one before the
# GPU counts as healthy again: lowering duty must not by itself bring the full duty back.
MARGIN: Final = 0.2
# However short a dwell a policy names, this many seconds must agree.
LEAST_SAMPLES: Final = 2
# An eviction takes more: the value of a source that is late may be shown again for three seconds,
# and one that was read once must not evict.
LEAST_SAMPLES_OVER: Final = 4


class Dwell(msgspec.Struct, frozen=True):
    """The present runs of one signal.

    `over`, `raised`: last values beyond the upper, the lower limit; `clear`, `settled`: worst
    values within them; `recovered`: worst values within the lower limit by the margin.
    `seen_over`: the newest value seen was beyond the upper limit.
    """

    over_s: float = 0.0
    over_n: int = 0
    raised_s: float = 0.0
    raised_n: int = 0
    clear_s: float = 0.0
    clear_n: int = 0
    settled_s: float = 0.0
    settled_n: int = 0
    recovered_s: float = 0.0
    recovered_n: int = 0
    missing_s: float = 0.0
    present: bool = False
    seen_over: bool = False


NEW: Final = Dwell()


def advance(
    dwell: Dwell,
    signal: Signal,
    threshold: Threshold,
    limit: float,
    last: float | None,
    worst: float | None,
    dt_s: float,
) -> Dwell:
    """The runs after one more second; `limit` is the eviction limit that holds."""
    beyond = worse(signal)
    if last is None or worst is None:
        unseen = _unseen(dwell, dt_s)
        went_over = worst is not None and beyond(worst, limit)
        return replace(unseen, seen_over=True) if went_over else unseen
    lower, is_over = threshold.lower, beyond(last, limit)
    good = well_under(threshold)
    over = _run(dwell.over_s, dwell.over_n, is_over, dt_s)
    raised = _run(dwell.raised_s, dwell.raised_n, beyond(last, lower), dt_s)
    clear = _run(dwell.clear_s, dwell.clear_n, not beyond(worst, limit), dt_s)
    settled = _run(dwell.settled_s, dwell.settled_n, not beyond(worst, lower), dt_s)
    recovered = _run(dwell.recovered_s, dwell.recovered_n, not beyond(worst, good), dt_s)
    return Dwell(
        *over,
        *raised,
        *clear,
        *settled,
        *recovered,
        present=True,
        seen_over=is_over,
    )


def well_under(threshold: Threshold) -> float:
    """The lower limit less the margin."""
    return threshold.lower - MARGIN * (threshold.upper - threshold.lower)


def _run(run_s: float, run_n: int, holds: bool, dt_s: float) -> tuple[float, int]:
    """The length of an unbroken run: its first sample opens it, each later one adds its second."""
    if not holds:
        return 0.0, 0
    return (run_s + dt_s if run_n else 0.0), run_n + 1


def _unseen(dwell: Dwell, dt_s: float) -> Dwell:
    """A missing value proves nothing: it ends each run but `raised`, which only pauses, so that a
    source that fails every other second cannot hide a busy GPU."""
    return Dwell(
        raised_s=dwell.raised_s,
        raised_n=dwell.raised_n,
        missing_s=dwell.missing_s + dt_s,
        seen_over=dwell.seen_over,
    )


def rearmed(dwell: Dwell, *, crossed: bool) -> Dwell:
    """At the moment of a freeze: both the way to an eviction and the way back start anew."""
    seen_over = crossed or dwell.seen_over
    return replace(dwell, over_s=0.0, over_n=0, clear_s=0.0, clear_n=0, seen_over=seen_over)


def is_completed(dwell: Dwell, threshold: Threshold) -> bool:
    return dwell.over_n >= LEAST_SAMPLES_OVER and dwell.over_s >= threshold.upper_dwell_s


def is_raised(dwell: Dwell, threshold: Threshold) -> bool:
    return dwell.raised_n >= LEAST_SAMPLES and dwell.raised_s >= threshold.lower_dwell_s


def is_cleared(dwell: Dwell, threshold: Threshold) -> bool:
    """Back under its limit for the dwell; a missing one counts unless it was last seen over it."""
    if not dwell.present:
        return not dwell.seen_over
    return dwell.clear_n >= LEAST_SAMPLES and dwell.clear_s >= threshold.upper_dwell_s


def is_settled(dwell: Dwell, threshold: Threshold) -> bool:
    """Under its lower limit for the dwell."""
    return dwell.settled_n >= LEAST_SAMPLES and dwell.settled_s >= threshold.lower_dwell_s


def is_recovered(dwell: Dwell, threshold: Threshold) -> bool:
    """Well under its lower limit for the dwell; a missing one unless it was last seen raised."""
    if not dwell.present:
        return not dwell.raised_n
    return dwell.recovered_n >= LEAST_SAMPLES and dwell.recovered_s >= threshold.lower_dwell_s
