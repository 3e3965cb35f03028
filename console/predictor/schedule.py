"""When a retraining begins by itself. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

# Our choices: the fewest that are worth a training, and how many of them must be new.
LEAST_OBSERVATIONS: Final = 300
LEAST_PAIRS: Final = 25
NEW_PART: Final = 0.2


class Cause(StrEnum):
    """What begins a retraining; the word is shown."""

    SCHEDULE = "schedule"
    DRIFT = "drift"
    PERSON = "a person"


@dataclass(frozen=True)
class Facts:
    """`new`: observations since the last training, all of them before the first. `since`: when
    that was, or the first observation; None: nothing was observed."""

    can_train: bool
    is_training: bool
    observations: int
    pairs: int
    new: int
    since: datetime | None
    drifted: bool


def due(facts: Facts, period_s: float, now: datetime) -> Cause | None:
    """After a whole period with enough that is new; a drift waits for half of a period only."""
    if facts.is_training or why_not(facts) or facts.since is None:
        return None
    if facts.new < NEW_PART * facts.observations:
        return None
    passed_s = (now - facts.since).total_seconds()
    if facts.drifted and passed_s >= period_s / 2:
        return Cause.DRIFT
    return Cause.SCHEDULE if passed_s >= period_s else None


def why_not(facts: Facts) -> str:
    """Why nothing can be trained now; "" when it can."""
    if not facts.can_train:
        return "No worker here can train."
    if facts.observations < LEAST_OBSERVATIONS or facts.pairs < LEAST_PAIRS:
        return (
            f"{facts.observations} observations of {facts.pairs} pairs so far; a training needs"
            f" {LEAST_OBSERVATIONS} of {LEAST_PAIRS}."
        )
    return ""
