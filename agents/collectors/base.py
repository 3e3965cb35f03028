"""The one shape all collectors have, and how several are run so that none can stop another."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from agents.sysmonitor.signals import Values


@dataclass(frozen=True, slots=True)
class GpuReading:
    """One GPU at one moment, as far as one source can tell; None where it cannot."""

    index: int
    values: Values
    sm_online_percent: float | None = None
    sm_offline_percent: float | None = None
    online_processes: int | None = None
    online_memory_bytes: int | None = None
    offline_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class NodeReading:
    at: float
    gpus: tuple[GpuReading, ...]


class Collector(Protocol):
    """One source of readings. None from `collect` means "no data now", which is no error."""

    name: str

    def collect(self, now: float) -> NodeReading | None: ...


@dataclass(frozen=True, slots=True)
class Collected:
    """What one collector did in one round: a reading, nothing, or an error in words."""

    name: str
    reading: NodeReading | None
    duration_s: float
    error: str = ""


def collect_all(
    collectors: Iterable[Collector], now: float, clock: Callable[[], float]
) -> tuple[Collected, ...]:
    """Run each collector once; a failing one yields its error and never stops the others."""
    raise NotImplementedError


def merge(collected: Iterable[Collected], now: float) -> NodeReading:
    """One reading of the node: each value from the first collector that has it."""
    raise NotImplementedError
