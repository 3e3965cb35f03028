"""The SM share of an offline client: what the online side leaves, in steps. Pure.

The share is fixed when a client starts; duty, decided on the node at every sample, follows the
load in between. So the share answers for the minutes to come and is changed with hysteresis.
All values are percent of one GPU.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.scheduling.limits import Limits, Load

# A GPU has 40 to 140 SMs: a finer step would round to the same number of them. Our choice.
STEP: Final = 5.0
# Below this a client spends its time waiting for its turn. Our choice.
LEAST: Final = 10.0
# An online side that sleeps may wake at any moment. Our choice.
MOST: Final = 90.0
# A smaller change is noise of the load. Our choice.
HYSTERESIS: Final = 10.0


def complement(peak: NDArray[np.float64], reserve: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share that complements an online peak; 0 where less than `LEAST` is left."""
    left = np.floor((100.0 - peak - reserve) / STEP) * STEP
    return np.where(left < LEAST, 0.0, np.minimum(left, MOST))


def target(limits: Limits, load: Load) -> Limits:
    """The limits that follow the load, or `limits` as they are when the change is noise.

    A share above what is left now is met at once by a duty cap; the share itself follows at the
    next start.
    """
    left = float(complement(np.array([load.peak]), np.array([load.reserve]))[0])
    desired = _hold(limits.desired, max(left, LEAST))
    return Limits(limits.started, desired, _duty_cap(limits.started, desired))


def _hold(old: float, new: float) -> float:
    return new if abs(new - old) >= HYSTERESIS else old


def _duty_cap(started: float | None, desired: float) -> float | None:
    if started is None or desired >= started:
        return None
    return max(LEAST, math.floor(100.0 * desired / started / STEP) * STEP)
