"""How a policy's fields are called and shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from agents.wire.names import Origin, Signal
from console import figures
from console.policies.rules import LANE_BOUNDS, REVERSED, SCALAR_BOUNDS, SIGNAL_BOUNDS, Bounds


class SignalWords(NamedTuple):
    """`scale` turns policy units into those shown; `low` and `high` end the axis of its slider."""

    name: str
    help: str
    unit: str
    low: float
    high: float
    scale: float = 1.0


SIGNALS: Final[Mapping[Signal, SignalWords]] = {
    Signal.ONLINE_P99: SignalWords("Online p99", "as a share of the SLO", "%", 40, 200, 100.0),
    Signal.MEMORY: SignalWords("Memory", "of the card", "%", 0, 100),
    Signal.SM_ACTIVITY: SignalWords("SM activity", "online and offline together", "%", 0, 100),
    Signal.SM_OCCUPANCY: SignalWords("SM occupancy", "of all warps", "%", 0, 100),
    Signal.GPU_UTIL: SignalWords("GPU utilisation", "time with any kernel", "%", 0, 100),
    Signal.MEMORY_BANDWIDTH: SignalWords("Memory bandwidth", "of its peak", "%", 0, 100),
    Signal.SM_CLOCK: SignalWords("SM clock", "of its highest; low is bad", "%", 0, 100),
    Signal.PCIE_RX: SignalWords("PCIe receive", "of the measured peak", "%", 0, 100),
    Signal.TEMPERATURE: SignalWords("Temperature", "GPU core", "°C", 20, 100),
    Signal.POWER: SignalWords("Power", "of its limit", "%", 0, 120),
}

_PARTS: Final = {
    "lower": "busy",
    "upper": "evict",
    "lower_dwell_s": "busy after",
    "upper_dwell_s": "evict after",
    "required": "required",
}

SCALARS: Final[Mapping[str, str]] = {
    "slo_dwell_s": "Over the SLO at lowered duty before an eviction is proposed",
    "missing_dwell_s": "A required signal missing before a GPU is busy",
    "grace_s": "Grace to save, after SIGTERM",
    "emergency_deadline_s": "Grace in an emergency",
    "cooldown_s": "Cool-down after an eviction",
    "cooldown_max_s": "Longest cool-down",
    "cooldown_window_s": "Evictions within this double the cool-down",
    "memory_reserve_percent": "Memory reserve; two samples beyond it evict",
    "duty_max_percent": "Highest duty",
    "duty_unhealthy_percent": "Duty when busy",
    "duty_floor_percent": "Duty while saving",
    "sm_reserve_percent": "SMs kept free for online work",
}
# What rounds keep to.
PLACING: Final[Mapping[str, str]] = {
    "min_gpu_headroom_percent": "Headroom a GPU needs to take a job",
    "most_slowdown": "Online takes at most this long beside a job, against alone",
    "proven_for_tier": "Only proven jobs beside services up to this tier; 0: any job",
    "aging_per_hour": "What an hour of waiting is worth",
    "move_min_gain": "Gain a move must bring",
    "residence_s": "A job that just started is not moved before",
    "interruptions_per_day": "Moves and preemptions of one job",
    "restarts_per_hour": "Restarts by rounds, for the whole pool",
    "moves_by_itself": "Moves of one plan that need no person, where Move is automatic",
}
# Set through the API alone: they are no matter of degree.
SWITCHES: Final[Mapping[str, str]] = {
    "allow_unlimited_jobs": "Jobs that escape xCUDA run on",
}

_ALL: Final = {**SCALARS, **PLACING, **SWITCHES}

ORIGINS: Final[Mapping[Origin, str]] = {
    Origin.EMERGENCY: "Emergency",
    Origin.OVERLOAD: "Overload",
    Origin.SLO: "SLO",
    Origin.MOVE: "Move",
    Origin.PREEMPT: "Preempt",
    Origin.DRAIN: "Drain",
    Origin.POLICY: "By hand",
    Origin.STOP_SHARING: "Stop sharing",
    Origin.CANCEL: "Cancel",
}

_LANE_PARTS: Final = {
    "mode": "who decides",
    "budget_per_hour": "budget",
    "deadline_s": "deadline",
    "default": "without a decision",
    "undo_s": "time to undo",
    "silent_s": "silence after keeping",
}
_CHOICES: Final = {
    "automatic": "automatic",
    "person": "waits for a person",
    "run": "it runs",
    "keep": "it is dropped",
}


def label(path: str) -> str:
    """`Memory, evict` for `thresholds.memory.upper`."""
    kind, *rest = path.split(".")
    if kind == "thresholds":
        return f"{SIGNALS[Signal(rest[0])].name}, {_PARTS[rest[1]]}"
    if kind == "lanes":
        return f"{ORIGINS[Origin(rest[0])]}, {_LANE_PARTS[rest[1]]}"
    return _ALL[path]


def shown(path: str, value: Any) -> str:
    """`91 %`; what is not there reads `none`, and no budget reads `no limit`."""
    if value is None:
        return "no limit" if path.endswith("budget_per_hour") else "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return _CHOICES.get(value, value)
    bounds, scale = bounds_of(path)
    return figures.quantity(value * scale, bounds.unit, _digits(value * scale))


def bounds_of(path: str) -> tuple[Bounds, float]:
    """The bounds of a number in the unit shown, and the scale from policy units to it."""
    kind, *rest = path.split(".")
    if kind == "lanes":
        return LANE_BOUNDS[rest[1]], 1.0
    if kind != "thresholds":
        return SCALAR_BOUNDS[path], 1.0
    if rest[1].endswith("_s"):
        return Bounds(0, 600), 1.0
    signal = Signal(rest[0])
    bounds, words = SIGNAL_BOUNDS[signal], SIGNALS[signal]
    return Bounds(bounds.low * words.scale, bounds.high * words.scale, words.unit), words.scale


def is_reversed(signal: Signal) -> bool:
    return signal in REVERSED


def _digits(value: float) -> int:
    return 0 if float(value).is_integer() else 2 if abs(value) < 1 else 1
