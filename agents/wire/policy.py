"""The policy an agent protects its node with, as it travels: signed, versioned, complete.

The presets below are where every policy starts; docs/states.md gives the reason of each number.
"""

from __future__ import annotations

from typing import Final

import msgspec

from agents.wire import limits
from agents.wire.names import Signal


class Threshold(msgspec.Struct, frozen=True):
    """Two limits on one signal, in policy units, and how long each must hold.

    Policy units: percent of the card for MEMORY, percent of the limit or maximum for POWER,
    SM_CLOCK and PCIE_RX, the ratio to its SLO for ONLINE_P99 (1.0 = the SLO); the signal's own
    unit for all others. For SM_CLOCK a *lower* value is worse; for all others a higher.
    """

    lower: float
    upper: float
    lower_dwell_s: float = 3.0
    upper_dwell_s: float = 3.0
    required: bool = False


class AgentPolicy(msgspec.Struct, frozen=True):
    """Everything an agent needs to protect online work with the network cut.

    `allow_unlimited_jobs`: a job of which a process escaped xCUDA runs on instead of being stopped.
    """

    policy_id: int
    version: int
    name: str
    thresholds: dict[Signal, Threshold]
    missing_dwell_s: float = 10.0
    cooldown_s: float = 60.0
    cooldown_max_s: float = 3_600.0
    cooldown_window_s: float = 3_600.0
    memory_reserve_percent: float = 5.0
    grace_s: float = 30.0
    emergency_deadline_s: float = 10.0
    duty_max_percent: float = 100.0
    duty_unhealthy_percent: float = 40.0
    duty_floor_percent: float = 5.0
    sm_reserve_percent: float = 10.0
    slo_dwell_s: float = 120.0
    allow_unlimited_jobs: bool = False


BALANCED: Final[dict[Signal, Threshold]] = {
    Signal.ONLINE_P99: Threshold(1.0, 1.5, 4.0, 4.0),
    Signal.MEMORY: Threshold(92.0, 95.0, 4.0, 4.0, required=True),
    Signal.SM_ACTIVITY: Threshold(85.0, 95.0, 6.0, 6.0, required=True),
    Signal.MEMORY_BANDWIDTH: Threshold(80.0, 92.0, 6.0, 6.0),
    Signal.SM_CLOCK: Threshold(80.0, 65.0, 10.0, 10.0),
    Signal.PCIE_RX: Threshold(60.0, 80.0, 6.0, 6.0),
    Signal.TEMPERATURE: Threshold(78.0, 84.0, 10.0, 10.0),
    Signal.POWER: Threshold(92.0, 98.0, 10.0, 10.0),
}

CONSERVATIVE: Final[dict[Signal, Threshold]] = {
    Signal.ONLINE_P99: Threshold(0.9, 1.2, 3.0, 3.0),
    Signal.MEMORY: Threshold(88.0, 92.0, 3.0, 3.0, required=True),
    Signal.SM_ACTIVITY: Threshold(75.0, 88.0, 4.0, 4.0, required=True),
    Signal.MEMORY_BANDWIDTH: Threshold(70.0, 85.0, 4.0, 4.0),
    Signal.SM_CLOCK: Threshold(90.0, 75.0, 5.0, 5.0),
    Signal.PCIE_RX: Threshold(50.0, 70.0, 4.0, 4.0),
    Signal.TEMPERATURE: Threshold(74.0, 80.0, 10.0, 10.0),
    Signal.POWER: Threshold(88.0, 95.0, 10.0, 10.0),
}

AGGRESSIVE: Final[dict[Signal, Threshold]] = {
    Signal.ONLINE_P99: Threshold(1.0, 1.8, 6.0, 6.0),
    Signal.MEMORY: Threshold(94.0, 97.0, 5.0, 5.0, required=True),
    Signal.SM_ACTIVITY: Threshold(92.0, 98.0, 10.0, 10.0, required=True),
    Signal.MEMORY_BANDWIDTH: Threshold(88.0, 96.0, 10.0, 10.0),
    Signal.SM_CLOCK: Threshold(70.0, 55.0, 15.0, 15.0),
    Signal.PCIE_RX: Threshold(75.0, 90.0, 10.0, 10.0),
    Signal.TEMPERATURE: Threshold(82.0, 87.0, 15.0, 15.0),
    Signal.POWER: Threshold(96.0, 100.0, 15.0, 15.0),
}


def balanced(policy_id: int, version: int, name: str = "Balanced") -> AgentPolicy:
    """Shares most of what is free and keeps every service under its SLO in the ordinary case."""
    return AgentPolicy(policy_id, version, name, BALANCED)


def conservative(policy_id: int, version: int, name: str = "Conservative") -> AgentPolicy:
    """Evicts early, shares less."""
    return AgentPolicy(
        policy_id,
        version,
        name,
        CONSERVATIVE,
        missing_dwell_s=5.0,
        cooldown_s=300.0,
        memory_reserve_percent=8.0,
        emergency_deadline_s=5.0,
        duty_max_percent=80.0,
        duty_unhealthy_percent=20.0,
        sm_reserve_percent=20.0,
        slo_dwell_s=60.0,
    )


def aggressive(policy_id: int, version: int, name: str = "Aggressive") -> AgentPolicy:
    """Shares more; the SLO stays where it is, the other limits move out."""
    return AgentPolicy(
        policy_id,
        version,
        name,
        AGGRESSIVE,
        cooldown_s=30.0,
        cooldown_max_s=1_800.0,
        memory_reserve_percent=3.0,
        grace_s=60.0,
        duty_unhealthy_percent=60.0,
        sm_reserve_percent=5.0,
        slo_dwell_s=300.0,
    )


def demo(policy_id: int, version: int, name: str = "Balanced") -> AgentPolicy:
    """Balanced limits with short times, so that a whole story fits into two minutes."""
    return AgentPolicy(
        policy_id,
        version,
        name,
        {signal: _hurried(threshold) for signal, threshold in BALANCED.items()},
        missing_dwell_s=5.0,
        cooldown_s=20.0,
        cooldown_max_s=120.0,
        cooldown_window_s=180.0,
        grace_s=8.0,
        emergency_deadline_s=5.0,
        slo_dwell_s=30.0,
    )


def _hurried(threshold: Threshold) -> Threshold:
    return msgspec.structs.replace(threshold, lower_dwell_s=3.0, upper_dwell_s=3.0)


def longest_stop_s(policy: AgentPolicy, grace_s: float | None = None) -> float:
    """The longest that a stop can take from its order to memory returned or failed."""
    window_s = policy.emergency_deadline_s + (policy.grace_s if grace_s is None else grace_s)
    drain_s = limits.GATE_S + limits.QUIESCE_S + limits.RELEASE_S + limits.EXIT_S
    return window_s + drain_s + limits.TERMINATE_S + limits.KILL_S + limits.MEMORY_RETURN_S
