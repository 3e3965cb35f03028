"""What SysMonitor remembers of one GPU, what it is told, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from agents.sysmonitor.signals import Reading
from agents.sysmonitor.thresholds import Dwell
from agents.wire.names import GpuState, Origin, Signal


@dataclass(frozen=True, slots=True)
class Facts:
    """What else the machine must know about the GPU at the moment of a sample.

    `offline_memory_returned`: no byte of offline work is left on the card. `online_present`: some
    process that is not ours runs on it. A hardware quarantine lifts when `disabled_by_person` has
    been true and turns false. `mps_fault`: how clients of the GPU were hit, "" when none was.
    `host_memory_short`: why the job must go for the sake of the host's memory, "" when it need
    not. `memory_is_new`: the memory of this sample was read after that of the one before, not
    shown again because its source is late. `throttled_by`: why the SM clock is lowered; "" by
    nothing that tells of load or heat (the card idles, a person set its clocks), None when nobody
    can say.
    """

    offline_present: bool = False
    offline_memory_returned: bool = True
    online_present: bool = True
    disabled_by_person: bool = False
    disable_reason: str = ""
    mps_fault: str = ""
    host_memory_short: str = ""
    memory_is_new: bool = True
    throttled_by: str | None = None


class Monitor(msgspec.Struct, frozen=True):
    """Everything remembered of one GPU. Durations only, so that no gap completes a dwell.

    `since` is the `now` of the last transition, for display. `held`: this machine wants all
    offline work of the GPU frozen, also work that starts now. `origin` is the state that GUARDED
    goes back to, `cause` the signal it guards against (None: a fault, or nothing could be read).
    `cooldown_s` is the last cool-down given. `faulty`: the last wire sample told of a fault that
    reaches every client. `reserve_sample` is the first of two local samples over the memory
    reserve; it and `held` never bear on a wire decision.
    """

    state: GpuState = GpuState.INIT
    since: float = 0.0
    why: str = "no sample yet"
    held: bool = False
    origin: GpuState = GpuState.UNHEALTHY
    cause: Signal | None = None
    dwells: dict[Signal, Dwell] = {}
    state_s: float = 0.0
    blind_n: int = 0
    slo_s: float = 0.0
    cooldown_s: float = 0.0
    quiet_s: float = 0.0
    person: bool = False
    faulty: bool = False
    reserve_sample: Reading | None = None
    seen_at: float | None = None
    story: tuple[str, ...] = ()


class ActionKind(StrEnum):
    """What the agent does about it. PROPOSE asks the console for an eviction of origin slo."""

    FREEZE = "freeze"
    THAW = "thaw"
    EVICT = "evict"
    PROPOSE = "propose"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing to do to all offline work of this GPU, with the evidence in policy units.

    `at_once`: an eviction with nothing to wait for, as the clients of the GPU were hit already.
    """

    kind: ActionKind
    why: str
    origin: Origin | None = None
    signal: Signal | None = None
    value: float | None = None
    limit: float | None = None
    at_once: bool = False


@dataclass(frozen=True, slots=True)
class Transition:
    """One move of the machine; value and limit in policy units.

    `samples` are the local samples that made it, for the record that `replay` takes; empty for a
    move decided on a wire sample.
    """

    from_state: GpuState
    to_state: GpuState
    why: str
    signal: Signal | None = None
    value: float | None = None
    limit: float | None = None
    samples: tuple[Reading, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """What one sample did."""

    monitor: Monitor
    transitions: tuple[Transition, ...] = ()
    actions: tuple[Action, ...] = ()


def to_dict(monitor: Monitor) -> dict[str, Any]:
    """Plain data for the state file of the agent."""
    data: dict[str, Any] = msgspec.to_builtins(monitor)
    return data


def from_dict(data: dict[str, Any], now: float) -> Monitor:
    """The monitor as it was saved; the time away counts towards no dwell. Raises ValueError."""
    try:
        saved = msgspec.convert(data, Monitor)
    except msgspec.ValidationError as error:
        raise ValueError(f"not a saved monitor: {error}") from error
    return replace(saved, seen_at=None, reserve_sample=None, since=now - saved.state_s)
