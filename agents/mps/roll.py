"""How many online processes a GPU had before a fault. Pure.

One that a fault hit may be gone before the fault is seen, so the most of the last seconds counts.
"""

from __future__ import annotations

from typing import Final, TypeAlias

LOOK_BACK_S: Final = 5.0

# Looks that came to a number: monotonic seconds, and how many there were.
Roll: TypeAlias = tuple[tuple[float, int], ...]


def note(roll: Roll, number: int, now: float) -> Roll:
    """With this look."""
    kept = tuple(one for one in roll if 0.0 <= now - one[0] <= LOOK_BACK_S)
    return (*kept, (now, number))


def most(roll: Roll) -> int:
    return max((number for _, number in roll), default=0)
