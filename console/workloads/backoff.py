"""How long a job that faulted is held: twice as long each time, bounded, and forgiven. Pure.

A fault reaches whoever else is on the GPU, so a job that faults again and again costs others more
each time that it is placed.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

FIRST: Final = timedelta(seconds=60)
MOST: Final = timedelta(hours=6)
# A job that could run for so long after its hold and did not fault has a clean slate.
FORGIVEN: Final = timedelta(hours=24)
# Doubled this often, FIRST is beyond MOST: a count without end must not become a number without.
_DOUBLINGS: Final = 16


@dataclass(frozen=True, slots=True)
class Record:
    """How often a job faulted since its slate was clean, and when last."""

    faults: int
    last_at: datetime

    @property
    def hold(self) -> timedelta:
        doubled: int = 2 ** min(max(self.faults, 1) - 1, _DOUBLINGS)
        return min(MOST, FIRST * doubled)

    @property
    def held_until(self) -> datetime:
        return self.last_at + self.hold

    @property
    def forgiven_at(self) -> datetime:
        return self.held_until + FORGIVEN


def after_fault(before: Record | None, at: datetime) -> Record:
    """The record with a fault at `at` added; one told late does not shorten the present hold."""
    if before is None or at >= before.forgiven_at:
        return Record(1, at)
    return Record(before.faults + 1, max(before.last_at, at))
