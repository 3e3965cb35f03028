"""How long a GPU rests after an eviction: doubling, bounded, decaying. Pure."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from agents.sysmonitor.monitor import Monitor
from agents.wire.policy import AgentPolicy

# A window shorter than this is none: each second of quiet would halve the cool-down.
LEAST_WINDOW_S: Final = 1.0


def cooled(monitor: Monitor, policy: AgentPolicy) -> Monitor:
    """The next cool-down: twice the last one when that ended within the window, half of it for
    each quiet window since, between the policy's base and its bound."""
    windows = int(monitor.quiet_s // max(LEAST_WINDOW_S, policy.cooldown_window_s))
    wanted_s = monitor.cooldown_s * (0.5**windows if windows else 2.0)
    bound_s = max(policy.cooldown_s, policy.cooldown_max_s)
    return replace(monitor, cooldown_s=min(bound_s, max(policy.cooldown_s, wanted_s)))
