"""Samples made of what they are to mean under a policy: how high each signal stands, what lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Any, Final

from agents.sysmonitor.signals import Values
from agents.wire.names import SIGNALS, Signal
from agents.wire.policy import AgentPolicy, demo
from tests.agents.sysmonitor.cast import GPU, QUIET, SLO_MS

# Whatever is no number that a card can have, of every signal.
NONSENSE: Final = (-1.0, float("nan"), float("inf"), 4_294_967_295.0 * 1e6, 9.2e18)
# What one policy unit of a relative signal is, in wire units.
WHOLE: Final = {
    Signal.MEMORY: GPU.memory_bytes / 100,
    Signal.POWER: 4.0,
    Signal.SM_CLOCK: 14.1,
    Signal.PCIE_RX: 31.5e7,
}
# Signals that a policy does not name stand where they would in this one.
USUAL: Final = demo(0, 0)


class Level(IntEnum):
    """Where a value stands against its two limits."""

    WELL = 0
    UNDER = 1
    RAISED = 2
    OVER = 3


@dataclass(frozen=True)
class Shown:
    """One sample in wire units, None where missing; `values` is what the guard is given instead,
    with nonsense in place of what is missing."""

    numbers: Mapping[Signal, float | None]
    lie: float | None = None
    _levels: dict[Any, Level | None] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def values(self) -> Values:
        told = (self.numbers[signal] for signal in SIGNALS)
        return tuple(self.lie if number is None else number for number in told)

    @property
    def is_busy(self) -> bool | None:
        """By its utilisation, None where that is missing."""
        util = self.numbers[Signal.GPU_UTIL]
        return None if util is None else util > 10.0

    def level(self, signal: Signal, policy: AgentPolicy, slo_ms: float | None) -> Level | None:
        """Worked out once: most samples are shown many times."""
        key = signal, policy.version, slo_ms
        if key not in self._levels:
            self._levels[key] = self._level(signal, policy, slo_ms)
        return self._levels[key]

    def _level(self, signal: Signal, policy: AgentPolicy, slo_ms: float | None) -> Level | None:
        number = self.numbers[signal]
        whole = slo_ms if signal is Signal.ONLINE_P99 else WHOLE.get(signal, 1.0)
        if number is None or whole is None:
            return None
        lower, upper = limits(signal, policy)
        good = lower - 0.2 * (upper - lower)
        sign = -1.0 if signal is Signal.SM_CLOCK else 1.0
        return Level(sum(sign * number > sign * bound * whole for bound in (good, lower, upper)))


@dataclass(frozen=True)
class Telling:
    """What a sample is to mean: `levels` of some signals, None for missing; the rest stand well.
    `lie`: which nonsense stands for what is missing, None for none at all."""

    levels: Mapping[Signal, Level | None] = field(default_factory=dict)
    gpu_util: float | None = 60.0
    qps: float | None = 300.0
    xid: float | None = 0.0
    lie: int | None = None

    def shown(self, policy: AgentPolicy, slo_ms: float | None) -> Shown:
        numbers = {signal: self._number(signal, policy, slo_ms or SLO_MS) for signal in SIGNALS}
        told = {
            Signal.XID: self.xid,
            Signal.ONLINE_QPS: self.qps,
            Signal.GPU_UTIL: self.gpu_util,
            Signal.SM_OCCUPANCY: QUIET[Signal.SM_OCCUPANCY],
        }
        return Shown(numbers | told, None if self.lie is None else NONSENSE[self.lie])

    def _number(self, signal: Signal, policy: AgentPolicy, slo_ms: float) -> float | None:
        level = self.levels.get(signal, Level.WELL)
        if level is None or signal not in USUAL.thresholds:
            return None
        whole = slo_ms if signal is Signal.ONLINE_P99 else WHOLE.get(signal, 1.0)
        return standing(signal, level, policy) * whole


def standing(signal: Signal, level: Level, policy: AgentPolicy) -> float:
    """A value at this level, in policy units."""
    lower, upper = limits(signal, policy)
    lower = lower if lower != upper else 0.9 * upper
    beyond = 0.5 if signal is Signal.SM_CLOCK else 1.01
    return {
        Level.WELL: lower - 0.5 * (upper - lower),
        Level.UNDER: lower - 0.1 * (upper - lower),
        Level.RAISED: upper - 0.2 * (upper - lower),
        Level.OVER: upper * beyond,
    }[level]


def levelled(policy: AgentPolicy) -> list[Signal]:
    return [*policy.thresholds, *({Signal.MEMORY} - policy.thresholds.keys())]


def limits(signal: Signal, policy: AgentPolicy) -> tuple[float, float]:
    """The reserve bounds the upper limit of memory, and is both where the policy names none."""
    left = 100.0 - policy.memory_reserve_percent
    if signal is Signal.MEMORY and signal not in policy.thresholds:
        return left, left
    threshold = policy.thresholds.get(signal) or USUAL.thresholds[signal]
    return threshold.lower, min(threshold.upper, left) if signal == "memory" else threshold.upper
