"""The SM share of an offline client: what the online side leaves, in steps. Pure.

The share is fixed when a client starts; duty, decided on the node at every sample, follows the
load in between. So the share answers for the minutes to come and is changed with hysteresis.
All values are percent of one GPU.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

# A GPU has 40 to 140 SMs: a finer step would round to the same number of them. Our choice.
STEP_PERCENT: Final = 5.0
# Below this a client spends its time waiting for its turn. Our choice.
LEAST_PERCENT: Final = 10.0
# An online side that sleeps may wake at any moment. Our choice.
MOST_PERCENT: Final = 90.0
# A smaller change is noise of the load. Our choice.
HYSTERESIS_PERCENT: Final = 10.0


def complement(
    peak_percent: NDArray[np.float64], reserve_percent: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The share that complements an online peak; 0 where less than the least is left."""
    left = np.floor((100.0 - peak_percent - reserve_percent) / STEP_PERCENT) * STEP_PERCENT
    return np.where(left < LEAST_PERCENT, 0.0, np.minimum(left, MOST_PERCENT))


@dataclass(frozen=True)
class Limits:
    """What a running client has: the share it started with (None: not reported yet), the share
    that it would get at a restart, and the duty cap from the console (None: none)."""

    started_percent: float | None
    desired_percent: float
    duty_percent: float | None


def renew(limits: Limits, target_percent: float) -> Limits:
    """The limits that follow `target_percent`, or `limits` themselves when nothing is gained.

    A target under the share in effect is met at once by a duty cap; the share itself follows at
    the next start.
    """
    desired = _hold(limits.desired_percent, max(target_percent, LEAST_PERCENT))
    duty = _duty_cap(limits.started_percent, desired)
    if (desired, duty) == (limits.desired_percent, limits.duty_percent):
        return limits
    return Limits(limits.started_percent, desired, duty)


def _hold(old_percent: float, new_percent: float) -> float:
    return new_percent if abs(new_percent - old_percent) >= HYSTERESIS_PERCENT else old_percent


def _duty_cap(started_percent: float | None, desired_percent: float) -> float | None:
    if started_percent is None or desired_percent >= started_percent:
        return None
    steps = math.floor(100.0 * desired_percent / started_percent / STEP_PERCENT)
    return max(LEAST_PERCENT, steps * STEP_PERCENT)
