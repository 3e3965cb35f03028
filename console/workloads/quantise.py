"""Round what is known of jobs, so that like jobs have one profile and are decided as one. Pure.

A round prices a class of jobs, not each of them. Two runs of one program never measure the same to
the last digit; rounded, they do. The steps are finer than what any prediction can tell apart.
"""

from __future__ import annotations

import math
from typing import Final

PERCENT_STEP: Final = 5.0
# Steps of memory within one doubling: a sixteenth of 16 GiB is one GiB.
MEMORY_STEPS: Final = 16
LEAST_MEMORY_BYTES: Final = 64 << 20
# Steps of a time within one doubling: about 9 percent each.
TIME_STEPS: Final = 8


def percent(value: float) -> float:
    """The nearest step from 0 to 100; what is there at all is at least one step."""
    if value <= 0.0:
        return 0.0
    return min(100.0, max(PERCENT_STEP, PERCENT_STEP * round(value / PERCENT_STEP)))


def memory(memory_bytes: int) -> int:
    """The next step up: a job that is given less than it needs ends."""
    least = max(LEAST_MEMORY_BYTES, memory_bytes)
    step = (1 << (least - 1).bit_length() - 1) // MEMORY_STEPS
    return -(-least // step) * step


def time(seconds: float) -> float:
    """The nearest step, on a scale of equal ratios."""
    rounded: float = 2.0 ** (round(math.log2(seconds) * TIME_STEPS) / TIME_STEPS)
    return rounded
