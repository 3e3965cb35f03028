"""Duty: the percent of time in which offline launches pass. Decided on every sample, on the node."""

from __future__ import annotations

from agents.wire.names import GpuState
from agents.wire.policy import AgentPolicy


def next_duty(
    current_percent: float,
    share_percent: float,
    online_sm_percent: float | None,
    state: GpuState,
    policy: AgentPolicy,
    dt_s: float,
) -> float:
    """The duty until the next sample, between the policy's floor and its maximum, in percent."""
    raise NotImplementedError


def short_term(previous_percent: float | None, sample_percent: float, dt_s: float) -> float:
    """Online SM activity as duty uses it: rises with the sample at once, falls slowly."""
    raise NotImplementedError
