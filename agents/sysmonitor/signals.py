"""What a sample says: plausible or missing, in the units that a policy's thresholds are written in.

Wire units are in `names.UNITS`. Policy units: percent of the card for MEMORY, percent of the
limit or maximum for POWER, SM_CLOCK and PCIE_RX, the ratio to its SLO for ONLINE_P99; all other
signals keep their own unit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from agents.wire.names import SIGNALS, Signal
from agents.wire.policy import AgentPolicy

# One value a signal, in the order of `SIGNALS` and in wire units; None where missing.
Values: TypeAlias = tuple[float | None, ...]


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
        return self.values[_POSITION[signal]]


_POSITION = {signal: position for position, signal in enumerate(SIGNALS)}


def plausible(values: Values, gpu: GpuFacts) -> Values:
    """The same sample with every nonsense value turned into None (wire units in and out)."""
    raise NotImplementedError


def worst(samples: Iterable[Values]) -> Values:
    """The worst value of each signal over some plausible samples: the least SM clock, the most of
    all others."""
    raise NotImplementedError


def reading(values: Values, gpu: GpuFacts, slo_p99_ms: float | None) -> Reading:
    """A sample in wire units as the policy sees it; nonsense becomes None."""
    raise NotImplementedError


def headroom(sample: Reading, policy: AgentPolicy) -> tuple[float | None, Signal | None]:
    """Distance to the nearest eviction threshold in percent of it, and whose it is.

    0 at or over a threshold, 100 farthest away, (None, None) when no thresholded signal is read.
    """
    raise NotImplementedError
