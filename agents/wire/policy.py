"""The policy an agent protects its node with, as it travels: signed, versioned, complete.

Defaults and their reasons are listed in docs/states.md.
"""

from __future__ import annotations

import msgspec

from agents.wire.names import Signal


class Threshold(msgspec.Struct, frozen=True):
    """Two limits on one signal, in the signal's own unit, and how long each must hold.

    For ONLINE_P99 the two limits are ratios of the service's SLO (1.0 = the SLO). For MEMORY
    they are percent of the card. For SM_CLOCK a *lower* value is worse; for all others a higher.
    """

    lower: float
    upper: float
    lower_dwell_s: float = 3.0
    upper_dwell_s: float = 3.0
    required: bool = False


class AgentPolicy(msgspec.Struct, frozen=True):
    """Everything an agent needs to protect online work with the network cut."""

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
