"""SysMonitor: the state of one GPU, from samples, a policy and a few facts. Pure.

`local_step` runs on every local sample (5 Hz or more) and can only hold offline work, or evict by
the memory rule. `wire_step` runs on the sample that goes out once a second and takes every other
decision. The caller carries out the actions and records the transitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from agents.sysmonitor.signals import Reading
from agents.wire.names import GpuState, Origin, Signal
from agents.wire.policy import AgentPolicy


class ActionKind(StrEnum):
    """What the agent does about it. PROPOSE asks the console for an eviction of origin slo."""

    FREEZE = "freeze"
    THAW = "thaw"
    EVICT = "evict"
    PROPOSE = "propose"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do to all offline work of this GPU, with the evidence for it."""

    kind: ActionKind
    why: str
    origin: Origin | None = None
    signal: Signal | None = None
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """One move of the machine; value and limit in policy units."""

    from_state: GpuState
    to_state: GpuState
    why: str
    signal: Signal | None = None
    value: float | None = None
    limit: float | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """What else the machine must know about the GPU at the moment of a sample.

    `offline_memory_returned`: no byte of offline work is left on the card. `online_present`:
    some process that is not ours runs on it; contention limits hold only then. A hardware
    quarantine lifts when `disabled_by_person` has been true and turns false.
    """

    offline_present: bool = False
    offline_memory_returned: bool = True
    online_present: bool = True
    disabled_by_person: bool = False
    disable_reason: str = ""
    mps_fault: bool = False
    host_memory_short: bool = False


@dataclass(frozen=True, slots=True)
class Monitor:
    """Everything remembered of one GPU. Durations only, so that no gap completes a dwell."""

    state: GpuState = GpuState.INIT
    since: float = 0.0
    why: str = "no sample yet"
    held: bool = False
    cooldown_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """What one sample did."""

    monitor: Monitor
    transitions: tuple[Transition, ...] = ()
    actions: tuple[Action, ...] = ()


def local_step(
    monitor: Monitor, sample: Reading, policy: AgentPolicy, facts: Facts, now: float
) -> Step:
    """Freeze on the first sample over a limit; evict on the second over the memory reserve."""
    raise NotImplementedError


def wire_step(
    monitor: Monitor,
    last: Reading,
    worst: Reading,
    policy: AgentPolicy,
    facts: Facts,
    now: float,
) -> Step:
    """Every transition that is not a freeze, from the last and the worst value of one second."""
    raise NotImplementedError


def calm(monitor: Monitor, policy: AgentPolicy) -> bool:
    """True once what caused the guard has been under its lower threshold for its dwell: an
    emergency stop may then open its checkpoint window."""
    raise NotImplementedError


def pressing(sample: Reading, policy: AgentPolicy, facts: Facts) -> bool:
    """True while any limit is crossed: an open checkpoint window of an emergency closes."""
    raise NotImplementedError


def missing(last: Reading, policy: AgentPolicy, facts: Facts) -> tuple[Signal, ...]:
    """The thresholded signals that could be read on this GPU and are not: `GpuStatus.degraded`."""
    raise NotImplementedError


def to_dict(monitor: Monitor) -> dict[str, Any]:
    """Plain data for the state file of the agent."""
    raise NotImplementedError


def from_dict(data: dict[str, Any], now: float) -> Monitor:
    """The monitor as it was saved; the time away counts towards no dwell. Raises ValueError."""
    raise NotImplementedError
