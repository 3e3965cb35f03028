"""How finely the past is kept, and which tier answers which question. Pure.

Each tier is made of the one before it, so that what is read for a day costs no more than what is
read for a minute. A block holds a fixed span of time of all GPUs of one node (or of one pool or
service as a whole). What is new comes in blocks of a minute, which become part of those when their
hour is over: a large block takes less of a disk than many small ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MINUTE_S: Final = 60
HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S


@dataclass(frozen=True)
class Tier:
    """`period_s` between two points, `block_s` of them in a block, kept for `kept_s`."""

    name: str
    period_s: int
    block_s: int
    kept_s: int

    @property
    def points(self) -> int:
        """In a block."""
        return self.block_s // self.period_s

    def start(self, at: float) -> int:
        """Of the block that holds this moment."""
        return int(at // self.block_s) * self.block_s


RAW: Final = Tier("1 s", 1, HOUR_S, 2 * DAY_S)
TEN: Final = Tier("10 s", 10, HOUR_S, 14 * DAY_S)
ONE: Final = Tier("1 min", MINUTE_S, HOUR_S, 90 * DAY_S)
QUARTER: Final = Tier("15 min", 15 * MINUTE_S, DAY_S, 730 * DAY_S)
TIERS: Final = (RAW, TEN, ONE, QUARTER)
BY_PERIOD: Final = {tier.period_s: tier for tier in TIERS}
# A block of what is new, of RAW for nodes, and of TEN for pools and services.
FRESH_S: Final = MINUTE_S
# What each is rolled up from.
FINER: Final = {TEN: RAW, ONE: TEN, QUARTER: ONE}

# Points are drawn together up to this many to one, before a coarser tier is read instead.
MOST_TOGETHER: Final = 4


@dataclass(frozen=True)
class Reading:
    """Read `tier`, and draw `together` of its points as one."""

    tier: Tier
    together: int

    @property
    def period_s(self) -> int:
        return self.tier.period_s * self.together


def fresh_start(at: float) -> int:
    """Of the block of a minute that holds this moment."""
    return int(at // FRESH_S) * FRESH_S


def reading(start: float, end: float, points: int, now: float, finest: Tier = RAW) -> Reading:
    """The finest tier that still reaches back to `start` and gives at most `points` points."""
    span_s = max(1.0, end - start)
    reaching = [t for t in TIERS if t.period_s >= finest.period_s and now - start <= t.kept_s]
    fitting = [t for t in reaching if span_s / t.period_s <= points * MOST_TOGETHER]
    tier = next(iter(fitting), TIERS[-1])
    return Reading(tier, max(1, -int(-(span_s / tier.period_s) // points)))
