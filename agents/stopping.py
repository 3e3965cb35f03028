"""The stop of one offline process as a machine: what to do next, and when it is late. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agents.wire.names import Checkpoint, Origin, Phase
from agents.wire.policy import AgentPolicy


class StopActionKind(StrEnum):
    """What the caller does now.

    FLOOR_DUTY lets launches pass at the floor duty (and lifts a freeze); FREEZE holds them again.
    STUCK reports a missed deadline, FAILED that the process or its memory would not go: the GPU
    must be disabled. DONE ends the stop.
    """

    SEND_SIGTERM = "send_sigterm"
    FLOOR_DUTY = "floor_duty"
    FREEZE = "freeze"
    GATE = "gate"
    QUIESCE = "quiesce"
    RELEASE = "release"
    TERMINATE_CLIENT = "terminate_client"
    KILL = "kill"
    REPORT = "report"
    STUCK = "stuck"
    DONE = "done"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class StopAction:
    """`phase` is set for REPORT, `why` for STUCK and FAILED."""

    kind: StopActionKind
    phase: Phase | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What is true of the process and its GPU now.

    `checkpointed`: it saved after SIGTERM. `gated`, `quiesced`, `released`: xCUDA's own account,
    true for a process without it. `calm` and `pressing`: see `sysmonitor.machine`.
    """

    gone: bool = False
    checkpointed: bool = False
    gated: bool = False
    quiesced: bool = False
    released: bool = False
    memory_returned: bool = False
    calm: bool = False
    pressing: bool = False


@dataclass(frozen=True, slots=True)
class StopState:
    """One stop under way."""

    phase: Phase | None = None


def begin(
    origin: Origin, checkpoint: Checkpoint, grace_s: float, policy: AgentPolicy, now: float
) -> tuple[StopState, tuple[StopAction, ...]]:
    """Start a stop: `emergency` and `overload` by the emergency sequence, all others ordinary.

    `emergency` opens no checkpoint window (memory, faults); `overload` opens one once calm.
    """
    raise NotImplementedError


def step(state: StopState, seen: Seen, now: float) -> tuple[StopState, tuple[StopAction, ...]]:
    """The next state and actions; call on every change seen and at least every 100 ms."""
    raise NotImplementedError


def escalate(
    state: StopState, origin: Origin, policy: AgentPolicy, now: float
) -> tuple[StopState, tuple[StopAction, ...]]:
    """Turn an ordinary stop under way into an emergency; phases passed stay passed."""
    raise NotImplementedError


def to_dict(state: StopState, now: float) -> dict[str, Any]:
    """Plain data for the state file of the agent."""
    raise NotImplementedError


def from_dict(data: dict[str, Any], now: float) -> StopState:
    """The stop as it was saved; the time away counts towards no deadline. Raises ValueError."""
    raise NotImplementedError
