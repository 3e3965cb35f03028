"""What priority is worth. Pure."""

from __future__ import annotations

import math
from typing import Final

# One step of priority is worth this much more; beyond ten steps nothing changes. Our choice.
STEP: Final = 1.25
MOST: Final = 10


def weight_of(priority: int) -> float:
    """What a unit of throughput is worth, from the job's priority."""
    return float(STEP ** max(-MOST, min(MOST, priority)))


def priority_for(weight: float) -> int | None:
    """The lowest priority that is worth more than `weight`; None when none is."""
    if weight <= 0.0:
        return -MOST
    steps = max(-MOST, math.floor(math.log(weight) / math.log(STEP) + 1e-6) + 1)
    return steps if steps <= MOST else None
