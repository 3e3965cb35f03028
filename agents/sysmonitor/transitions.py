"""The transition table of a GPU's state: what may happen, and where it leads. Anything else raises.

docs/states.md says every state in one sentence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from agents.wire.names import GPU_STATES, GpuState


class Trigger(StrEnum):
    """What can happen to a GPU."""

    CALM = "all signals stayed well under their lower limits"
    BUSY = "a signal stayed over its lower limit, or one the policy requires stayed away"
    CROSSED = "a signal is over its limit"
    BLIND = "no signal can be read"
    FAULT = "a fault that reaches every client of the GPU"
    COMPLETED = "a signal stayed over its limit for its whole dwell"
    RESERVE = "memory was over the reserve on two samples in a row"
    RETURNED = "the offline memory has returned"
    PERSON = "a person disabled the GPU"
    HARDWARE = "the hardware reported an error"
    ENABLED = "a person enabled the GPU"


_INIT, _HEALTHY, _UNHEALTHY = GpuState.INIT, GpuState.HEALTHY, GpuState.UNHEALTHY
_GUARDED, _OVERLIMIT, _COOLDOWN = GpuState.GUARDED, GpuState.OVERLIMIT, GpuState.COOLDOWN
_DISABLED = GpuState.DISABLED

# From GUARDED, CALM and BUSY both say "noise": the trigger names the state it came from.
TRANSITIONS: Final[Mapping[tuple[GpuState, Trigger], GpuState]] = {
    (_INIT, Trigger.CALM): _HEALTHY,
    (_INIT, Trigger.BUSY): _UNHEALTHY,
    (_HEALTHY, Trigger.BUSY): _UNHEALTHY,
    (_HEALTHY, Trigger.CROSSED): _GUARDED,
    (_HEALTHY, Trigger.BLIND): _GUARDED,
    (_HEALTHY, Trigger.FAULT): _GUARDED,
    (_UNHEALTHY, Trigger.CALM): _HEALTHY,
    (_UNHEALTHY, Trigger.CROSSED): _GUARDED,
    (_UNHEALTHY, Trigger.BLIND): _GUARDED,
    (_UNHEALTHY, Trigger.FAULT): _GUARDED,
    (_GUARDED, Trigger.CALM): _HEALTHY,
    (_GUARDED, Trigger.BUSY): _UNHEALTHY,
    (_GUARDED, Trigger.COMPLETED): _OVERLIMIT,
    (_GUARDED, Trigger.RESERVE): _OVERLIMIT,
    (_GUARDED, Trigger.FAULT): _OVERLIMIT,
    (_OVERLIMIT, Trigger.RETURNED): _COOLDOWN,
    (_COOLDOWN, Trigger.CALM): _HEALTHY,
    (_COOLDOWN, Trigger.BUSY): _UNHEALTHY,
    **{(state, Trigger.PERSON): _DISABLED for state in GPU_STATES if state is not _DISABLED},
    **{(state, Trigger.HARDWARE): _DISABLED for state in GPU_STATES if state is not _DISABLED},
    (_DISABLED, Trigger.ENABLED): _INIT,
}


class IllegalTransition(RuntimeError):
    """The machine was asked for a move that its table does not hold: a defect, told with what
    happened before it."""

    def __init__(self, state: GpuState, trigger: Trigger, story: Sequence[str]) -> None:
        lines = "; ".join(story) or "nothing yet"
        super().__init__(f"{state} cannot answer {trigger.name} ({trigger}). Before: {lines}")
        self.state, self.trigger, self.story = state, trigger, tuple(story)


class EndlessMoves(RuntimeError):
    """The machine came to no rest in one second: a defect, told with what happened before."""

    def __init__(self, story: Sequence[str]) -> None:
        super().__init__(f"no end of moves in one second: {'; '.join(story)}")


def next_state(state: GpuState, trigger: Trigger, story: Sequence[str] = ()) -> GpuState:
    """Where `trigger` leads from `state`. Raises IllegalTransition."""
    try:
        return TRANSITIONS[state, trigger]
    except KeyError:
        raise IllegalTransition(state, trigger, story) from None
