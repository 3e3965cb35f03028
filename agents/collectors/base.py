"""The one shape all collectors have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from agents.sysmonitor.signals import Values


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment, as far as one source can tell; None where it cannot.

    `values` are in wire units, in the order of `names.SIGNALS`.
    """

    index: int
    values: Values
    sm_online_percent: float | None = None
    sm_offline_percent: float | None = None
    online_processes: int | None = None
    online_memory_bytes: int | None = None
    offline_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """All GPUs that were found at `at` (monotonic seconds)."""

    at: float
    gpus: tuple[GpuReading, ...]


class Collector(Protocol):
    """One source of readings."""

    def collect(self, now: float) -> NodeReading | None:
        """What the source shows at `now` (monotonic seconds); None for "no data", no error.

        May raise: the node then goes on as without data, and its log says why.
        """
