"""What may happen to the moves of a round as one plan. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Final

from console.errors import IllegalTransition
from console.evictions.lifecycle import UNDER_WAY
from console.evictions.lifecycle import State as MoveState


class PlanState(StrEnum):
    """Where a plan is. docs/states.md has a sentence for each."""

    PROPOSED = "PROPOSED"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    SETTLED = "SETTLED"


class PlanEvent(StrEnum):
    """What a person or the clock does to a plan."""

    APPROVE = "approve"
    REJECT = "reject"
    RUN_BY_DEFAULT = "run_by_default"
    DROP_BY_DEFAULT = "drop_by_default"
    SETTLE = "settle"


PLAN_TRANSITIONS: Final[Mapping[tuple[PlanState, PlanEvent], PlanState]] = {
    (PlanState.PROPOSED, PlanEvent.APPROVE): PlanState.APPROVED,
    (PlanState.PROPOSED, PlanEvent.REJECT): PlanState.REJECTED,
    (PlanState.PROPOSED, PlanEvent.RUN_BY_DEFAULT): PlanState.APPROVED,
    (PlanState.PROPOSED, PlanEvent.DROP_BY_DEFAULT): PlanState.EXPIRED,
    (PlanState.PROPOSED, PlanEvent.SETTLE): PlanState.SETTLED,
}


def next_plan_state(state: PlanState, event: PlanEvent, subject: str, story: str) -> PlanState:
    """Where `event` leads. Raises IllegalTransition with `story`, which tells how it came there."""
    try:
        return PLAN_TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(subject, state.value, event.value, story) from None


# Whoever is in one of these was told to go.
_WENT: Final = frozenset({MoveState.APPROVED, *UNDER_WAY, MoveState.COMPLETED, MoveState.FAILED})


def settled_by(moves: Collection[tuple[str, bool]]) -> PlanEvent | None:
    """What became of a plan that nobody decided on as one; None while a move of it waits.

    `moves` are (state, whether a person decided) of each.
    """
    states = {state for state, _ in moves}
    if MoveState.PROPOSED in states:
        return None
    if MoveState.EXPIRED in states:
        return PlanEvent.DROP_BY_DEFAULT
    by_clock = any(state in _WENT and not by_person for state, by_person in moves)
    return PlanEvent.RUN_BY_DEFAULT if by_clock else PlanEvent.SETTLE
