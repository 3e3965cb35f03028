"""Duty: the percent of time in which offline launches pass; decided on every sample, on the node.

    duty = min(share, 100 − online SM activity − reserve)

within the policy's floor and maximum. The SM share of a client is fixed when it starts, while
duty changes at any moment, so duty is what follows the online load. It falls at once and rises
slowly: a fall costs a batch job some throughput, a rise too soon costs a user's request.
"""

from __future__ import annotations

import math
from typing import Final

from agents.wire.names import GpuState
from agents.wire.policy import AgentPolicy

# From floor to full in about twenty seconds: slower than any dwell, so that a limit is met again
# only after its last crossing has been judged.
RISE_PERCENT_PER_S: Final = 5.0
# After a gap in which nobody looked duty rises as after one sample: what was free in it is unknown.
MAX_STEP_S: Final = 1.0
# Requests come in bursts; the activity of the last few seconds is what the next one may need.
FALL_TIME_S: Final = 3.0


def next_duty(
    current_percent: float,
    share_percent: float,
    online_sm_percent: float | None,
    state: GpuState,
    policy: AgentPolicy,
    dt_s: float,
) -> float:
    """The duty until the next sample, between the policy's floor and its maximum, in percent."""
    target = _target(share_percent, online_sm_percent, state, policy)
    step_s = min(MAX_STEP_S, max(0.0, dt_s))
    rising = max(policy.duty_floor_percent, current_percent) + RISE_PERCENT_PER_S * step_s
    return min(target, rising)


def _target(
    share_percent: float,
    online_sm_percent: float | None,
    state: GpuState,
    policy: AgentPolicy,
) -> float:
    """Where duty would be if it need not rise slowly."""
    cap = _cap(state, online_sm_percent is None, policy)
    complement = 100.0 - (online_sm_percent or 0.0) - policy.sm_reserve_percent
    return max(policy.duty_floor_percent, min(share_percent, complement, cap))


def _cap(state: GpuState, blind: bool, policy: AgentPolicy) -> float:
    """The most that a state allows. Unknown online activity is not zero: it counts as busy."""
    if state is GpuState.HEALTHY and not blind:
        return policy.duty_max_percent
    if state in {GpuState.HEALTHY, GpuState.UNHEALTHY}:
        return min(policy.duty_max_percent, policy.duty_unhealthy_percent)
    return policy.duty_floor_percent


def short_term(previous_percent: float | None, sample_percent: float, dt_s: float) -> float:
    """Online SM activity as duty uses it: rises with the sample at once, falls slowly (percent).

    The fall is exponential with the time constant `FALL_TIME_S`.
    """
    if previous_percent is None or sample_percent >= previous_percent:
        return sample_percent
    left = math.exp(-max(0.0, dt_s) / FALL_TIME_S)
    return sample_percent + (previous_percent - sample_percent) * left
