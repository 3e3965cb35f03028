"""What to do after each way in which a list or a watch can end, and when. Pure.

| what ended it | then | after |
|---|---|---|
| the server closed a watch that had lasted | watch on | at once |
| the server closed a watch that had only begun | watch on | back-off |
| 410: the version is too old | list anew | at once; back-off when it comes again |
| 429 or 503 with Retry-After | the same again | what it asks for, a minute at most |
| any other refusal, a broken connection | the same again | back-off |
| an answer that is none | list anew | back-off |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

FIRST_S: Final = 1.0
LONGEST_S: Final = 60.0
MOST_DOUBLINGS: Final = 6


class Ending(StrEnum):
    """How a list or a watch ended."""

    CLOSED = "closed"
    TOO_SOON = "too_soon"
    TOO_OLD = "too_old"
    REFUSED = "refused"
    BROKEN = "broken"
    NONSENSE = "nonsense"


@dataclass(frozen=True, slots=True)
class Next:
    """`anew`: forget the version and list. `failures` in a row, this one included."""

    anew: bool
    wait_s: float
    failures: int


# Endings that what is known does not survive.
ANEW: Final = frozenset({Ending.TOO_OLD, Ending.NONSENSE})


def after(ending: Ending, failures: int, spread: float, retry_after_s: float | None = None) -> Next:
    """`failures` in a row before this ending, `spread` from 0 to 1 for the jitter."""
    if ending is Ending.CLOSED:
        return Next(anew=False, wait_s=0.0, failures=0)
    wait_s = back_off_s(failures, spread)
    if ending is Ending.TOO_OLD and failures == 0:
        wait_s = 0.0
    elif retry_after_s is not None:
        wait_s = min(LONGEST_S, max(FIRST_S, retry_after_s) * (1.0 + spread / 4))
    return Next(ending in ANEW, wait_s, failures + 1)


def back_off_s(failures: int, spread: float) -> float:
    """Doubles up to a minute; jittered, so that the nodes of a cluster do not come as one."""
    longest = min(LONGEST_S, FIRST_S * (1 << min(failures, MOST_DOUBLINGS)))
    return longest * (0.5 + spread / 2)
