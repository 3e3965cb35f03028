"""What a sample says: plausible or missing, in the units that a policy's thresholds are written in.

Wire units are in `names.UNITS`, policy units in `policy.Threshold`. A value that cannot be true
is a missing one: drivers and exporters have printed 4294967295 % and INT64 sentinels, so every
value passes the bounds below before anything is decided on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from operator import gt, lt
from typing import Final, TypeAlias

from agents.wire.names import SIGNALS, Signal
from agents.wire.policy import AgentPolicy, Threshold

# One value a signal, in the order of `SIGNALS` and in wire units; None where missing.
Values: TypeAlias = tuple[float | None, ...]
# Takes the worst of some values of one signal.
Pick: TypeAlias = Callable[[Sequence[float]], float]


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """What percentages are taken of; None where the node cannot tell."""

    memory_bytes: int
    power_limit_w: float | None = None
    sm_clock_max_mhz: float | None = None
    pcie_max_bytes_s: float | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One sample of one GPU in policy units, in the order of `SIGNALS`; None where missing."""

    values: Values
    has_slo: bool = False

    def get(self, signal: Signal) -> float | None:
        return self.values[POSITIONS[signal]]

    def could_have(self, signal: Signal) -> bool:
        """False where a missing value means nothing, which only one of `CONDITIONAL` knows: no SLO
        to compare with, no traffic, idle."""
        if signal is Signal.ONLINE_P99:
            return self.has_slo and self.get(Signal.ONLINE_QPS) != 0.0
        if signal is Signal.SM_CLOCK:
            return not _idle(self.values)
        return True


CONDITIONAL: Final = (Signal.ONLINE_P99, Signal.SM_CLOCK)
POSITIONS: Final = {signal: position for position, signal in enumerate(SIGNALS)}

# Inclusive bounds in wire units. The upper ones are beyond any card of today: they are there to
# tell a sentinel from a value, not a good value from a bad one.
BOUNDS: Final[dict[Signal, tuple[float, float]]] = {
    Signal.GPU_UTIL: (0.0, 100.0),
    Signal.SM_ACTIVITY: (0.0, 100.0),
    Signal.SM_OCCUPANCY: (0.0, 100.0),
    Signal.MEMORY_BANDWIDTH: (0.0, 100.0),
    Signal.SM_CLOCK: (1.0, 5_000.0),
    Signal.MEMORY: (0.0, 1e13),
    Signal.PCIE_RX: (0.0, 1e12),
    Signal.TEMPERATURE: (1.0, 130.0),
    Signal.POWER: (0.0, 3_000.0),
    Signal.XID: (0.0, 999.0),
    Signal.ONLINE_P99: (1e-6, 3.6e6),
    Signal.ONLINE_QPS: (0.0, 1e9),
}
_BOUNDS_IN_ORDER: Final = tuple(BOUNDS[signal] for signal in SIGNALS)

# NVIDIA's XID catalogue, by what we do about a code. Hardware: double-bit and uncontained memory
# errors (48, 95, 140), failed row remapping (64), NVLink (74), a halted or lost controller (62,
# 119, 120, 143), a card that fell off the bus (79).
HARDWARE_XIDS: Final = frozenset({48, 62, 64, 74, 79, 95, 119, 120, 140, 143})
# A client's fault that other clients of the same MPS server may share: an exception of the
# graphics engine (13), an illegal access (31), a contained memory error (94).
FAULT_XIDS: Final = frozenset({13, 31, 94})

# An exporter that lost its counters reports no SM active while kernels run all the time.
UTIL_THAT_NEEDS_SMS: Final = 50.0
# An idle card lowers its clock to save power; only the clock of a busy one says anything.
USE_THAT_NEEDS_CLOCK: Final = 10.0
# Memory read from two sources may differ a little from the card's size.
MEMORY_SLACK: Final = 1.02


def plausible(values: Values, gpu: GpuFacts) -> Values:
    """The same sample with every nonsense value turned into None (wire units in and out)."""
    bounded = [
        value if value is not None and low <= value <= high else None
        for value, (low, high) in zip(values, _BOUNDS_IN_ORDER, strict=True)
    ]
    if _over(bounded[_MEMORY], gpu.memory_bytes * MEMORY_SLACK):
        bounded[_MEMORY] = None
    if bounded[_SM] == 0.0 and _over(bounded[_UTIL], UTIL_THAT_NEEDS_SMS):
        bounded[_SM] = None
    return tuple(bounded)


_UTIL = POSITIONS[Signal.GPU_UTIL]
_SM = POSITIONS[Signal.SM_ACTIVITY]
_CLOCK = POSITIONS[Signal.SM_CLOCK]
_MEMORY = POSITIONS[Signal.MEMORY]
_PCIE = POSITIONS[Signal.PCIE_RX]
_POWER = POSITIONS[Signal.POWER]
_P99 = POSITIONS[Signal.ONLINE_P99]


def _over(value: float | None, limit: float) -> bool:
    return value is not None and value > limit


def _idle(values: Sequence[float | None]) -> bool:
    """Not known to be busy: by its utilisation, or by its SM activity where that is missing."""
    used = values[_SM] if values[_UTIL] is None else values[_UTIL]
    return used is None or used <= USE_THAT_NEEDS_CLOCK


def worst(samples: Sequence[Values]) -> Values:
    """The worst value of each signal over the plausible samples of one second: the least SM clock
    of a busy card, the gravest XID, the most of all others. All None without samples."""
    columns = zip(*samples, strict=True) if samples else ((),) * len(SIGNALS)
    found = list(map(_picked, _PICKS, columns))
    if busy := [sample[_CLOCK] for sample in samples if not _idle(sample)]:
        found[_CLOCK] = _picked(min, busy)
    return tuple(found)


def _picked(pick: Pick, column: Iterable[float | None]) -> float | None:
    present = [value for value in column if value is not None]
    return pick(present) if present else None


def xid_gravity(code: float) -> int:
    """2 for hardware (the GPU is quarantined), 1 for a fault of some client (offline work goes),
    0 for what a driver only tells."""
    return 2 if code in HARDWARE_XIDS else int(code in FAULT_XIDS)


def _gravest(codes: Sequence[float]) -> float:
    return max(codes, key=xid_gravity)


_PICK_OF: Final[dict[Signal, Pick]] = {Signal.XID: _gravest, Signal.SM_CLOCK: min}
_PICKS: Final = tuple(_PICK_OF.get(signal, max) for signal in SIGNALS)


def reading(values: Values, gpu: GpuFacts, slo_p99_ms: float | None) -> Reading:
    """A sample in wire units as the policy sees it; nonsense becomes None."""
    return in_policy_units(plausible(values, gpu), gpu, slo_p99_ms)


def in_policy_units(sane: Values, gpu: GpuFacts, slo_p99_ms: float | None) -> Reading:
    """A plausible sample as the policy sees it."""
    seen = list(sane)
    if _idle(sane):
        seen[_CLOCK] = None
    for at, whole in wholes(gpu, slo_p99_ms):
        seen[at] = _part(seen[at], whole)
    return Reading(tuple(seen), has_slo=slo_p99_ms is not None)


def wholes(gpu: GpuFacts, slo_p99_ms: float | None) -> tuple[tuple[int, float | None], ...]:
    """Where each relative signal is, and what one policy unit of it is, in wire units."""
    return (
        (_MEMORY, gpu.memory_bytes / 100.0),
        (_POWER, _hundredth(gpu.power_limit_w)),
        (_CLOCK, _hundredth(gpu.sm_clock_max_mhz)),
        (_PCIE, _hundredth(gpu.pcie_max_bytes_s)),
        (_P99, slo_p99_ms),
    )


def _hundredth(value: float | None) -> float | None:
    return None if value is None else value / 100.0


def _part(value: float | None, whole: float | None) -> float | None:
    if value is None or whole is None or not whole > 0.0:
        return None
    part = value / whole
    return part if math.isfinite(part) else None


def beyond(signal: Signal, value: float, limit: float) -> bool:
    """True when `value` is worse than `limit`: below it for the SM clock, above it for others."""
    return value < limit if signal is Signal.SM_CLOCK else value > limit


def worse(signal: Signal) -> Callable[[float, float], bool]:
    """`beyond`, for who asks it of one signal time and again."""
    return lt if signal is Signal.SM_CLOCK else gt


def limit_of(signal: Signal, threshold: Threshold, policy: AgentPolicy) -> float:
    """The eviction limit. Memory's is the lower of its own and of what the reserve leaves."""
    if signal is Signal.MEMORY:
        return min(threshold.upper, 100.0 - policy.memory_reserve_percent)
    return threshold.upper


_WORDS: Final[dict[Signal, tuple[str, str]]] = {
    Signal.GPU_UTIL: ("GPU utilisation", "{:.0f} %"),
    Signal.SM_ACTIVITY: ("SM activity", "{:.0f} %"),
    Signal.SM_OCCUPANCY: ("SM occupancy", "{:.0f} %"),
    Signal.MEMORY_BANDWIDTH: ("memory bandwidth", "{:.0f} %"),
    Signal.SM_CLOCK: ("SM clock", "{:.0f} % of its maximum"),
    Signal.MEMORY: ("memory", "{:.1f} % of the card"),
    Signal.PCIE_RX: ("PCIe receive", "{:.0f} % of the link"),
    Signal.TEMPERATURE: ("temperature", "{:.0f} °C"),
    Signal.POWER: ("power", "{:.0f} % of its limit"),
    Signal.XID: ("XID", "{:.0f}"),
    Signal.ONLINE_P99: ("online p99", "{:.2f} × its SLO"),
    Signal.ONLINE_QPS: ("online load", "{:.0f} requests/s"),
}


def name(signal: Signal) -> str:
    return _WORDS[signal][0]


def amount(signal: Signal, value: float) -> str:
    """A value in policy units, as people read it."""
    return _WORDS[signal][1].format(value)
