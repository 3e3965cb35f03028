"""The states of a predictor version. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from console.errors import IllegalTransition


class State(StrEnum):
    """One version at most is active; without one the analytic estimate predicts."""

    CANDIDATE = "CANDIDATE"
    ACTIVE = "ACTIVE"
    RETIRED = "RETIRED"
    REJECTED = "REJECTED"


class Event(StrEnum):
    PROMOTE = "promote"
    RETIRE = "retire"
    REJECT = "reject"


# A person may promote what the rule rejected, and what was in force before.
TRANSITIONS: Final[Mapping[tuple[State, Event], State]] = {
    (State.CANDIDATE, Event.PROMOTE): State.ACTIVE,
    (State.CANDIDATE, Event.REJECT): State.REJECTED,
    (State.RETIRED, Event.PROMOTE): State.ACTIVE,
    (State.REJECTED, Event.PROMOTE): State.ACTIVE,
    (State.ACTIVE, Event.RETIRE): State.RETIRED,
}


def next_state(state: str, event: Event, subject: str = "The version") -> State:
    """Where `event` leads. Raises IllegalTransition."""
    try:
        return TRANSITIONS[State(state), event]
    except KeyError:
        raise IllegalTransition(subject, state, event.value) from None
