"""How long a GPU rests after an eviction: doubling, bounded, decaying. Pure."""

from __future__ import annotations

import math

from msgspec.structs import replace

from agents.sysmonitor.monitor import Monitor
from agents.wire.policy import AgentPolicy


def cooled(monitor: Monitor, policy: AgentPolicy) -> Monitor:
    """The next cool-down: doubled when the last one ended within the window, halved for each
    quiet window since, between the policy's base and its bound."""
    windows = int(monitor.quiet_s // policy.cooldown_window_s)
    if monitor.cooldown_level < 0:
        level = 0
    else:
        level = max(0, monitor.cooldown_level - windows) if windows else monitor.cooldown_level + 1
    level = min(level, _highest_level(policy))
    cooldown_s = min(policy.cooldown_s * 2.0**level, max(policy.cooldown_max_s, policy.cooldown_s))
    return replace(monitor, cooldown_level=level, cooldown_s=cooldown_s)


def _highest_level(policy: AgentPolicy) -> int:
    """The level at which the bound is reached: beyond it a level would only delay the decay."""
    if policy.cooldown_max_s <= policy.cooldown_s or policy.cooldown_s <= 0.0:
        return 0
    return math.ceil(math.log2(policy.cooldown_max_s / policy.cooldown_s))
