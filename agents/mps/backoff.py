"""A job that faults again and again is held for twice as long each time. Pure.

A job is its id, on whatever attempt. Times are unix seconds: the count outlives the agent and the
node's boot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_S: Final = 60.0
MOST_S: Final = 6 * 3_600.0
# A job that ran without a fault for so long after its last one starts with a clean slate.
FORGIVEN_S: Final = 24 * 3_600.0


@dataclass(frozen=True, slots=True)
class Offence:
    """How often a job faulted, and when last."""

    faults: int
    at: float

    @property
    def hold_s(self) -> float:
        """The exponent is bounded: a count without end must not become a float without end."""
        return float(min(MOST_S, FIRST_S * 2 ** min(self.faults - 1, 16)))


def after_fault(before: Offence | None, now: float) -> Offence:
    if before is None or now - before.at >= before.hold_s + FORGIVEN_S:
        return Offence(1, now)
    return Offence(before.faults + 1, now)


def held_s(offence: Offence | None, now: float) -> float:
    """For how long it must not be started yet; a clock set back holds it no longer than a clock
    that runs true."""
    if offence is None:
        return 0.0
    return max(0.0, min(offence.hold_s, offence.at + offence.hold_s - now))
