"""The one shape all collectors have, and how several are run so that none can stop another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agents.sysmonitor.signals import Values

T = TypeVar("T")


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

    name: str

    def collect(self, now: float) -> NodeReading | None:
        """What the source shows at `now` (monotonic seconds); None for "no data", no error.

        May raise: the round goes on without this source, and its report says why.
        """


@dataclass(frozen=True, slots=True)
class Collected:
    """What one collector did in one round: a reading, nothing, or an error in words."""

    name: str
    reading: NodeReading | None
    duration_s: float
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.error


def collect_all(
    collectors: Iterable[Collector], now: float, clock: Callable[[], float]
) -> tuple[Collected, ...]:
    """Run each collector once; a failing one yields its error and never stops the others.

    `clock` measures how long each took.
    """
    return tuple(_collect(collector, now, clock) for collector in collectors)


def _collect(collector: Collector, now: float, clock: Callable[[], float]) -> Collected:
    started = clock()
    try:
        reading, error = collector.collect(now), ""
    except Exception as failure:  # whatever a driver's binding throws, the others go on
        reading, error = None, f"{type(failure).__name__}: {failure}"
    return Collected(collector.name, reading, clock() - started, error)


def merge(collected: Iterable[Collected], now: float) -> NodeReading:
    """One reading of the node: each value from the first collector that has it."""
    gpus: dict[int, GpuReading] = {}
    for one in collected:
        for gpu in one.reading.gpus if one.reading else ():
            known = gpus.get(gpu.index)
            gpus[gpu.index] = _completed(known, gpu) if known else gpu
    return NodeReading(now, tuple(gpus[index] for index in sorted(gpus)))


def _completed(known: GpuReading, more: GpuReading) -> GpuReading:
    pairs = zip(known.values, more.values, strict=True)
    return replace(
        known,
        values=tuple(_first(*pair) for pair in pairs),
        sm_online_percent=_first(known.sm_online_percent, more.sm_online_percent),
        sm_offline_percent=_first(known.sm_offline_percent, more.sm_offline_percent),
        online_processes=_first(known.online_processes, more.online_processes),
        online_memory_bytes=_first(known.online_memory_bytes, more.online_memory_bytes),
        offline_memory_bytes=_first(known.offline_memory_bytes, more.offline_memory_bytes),
    )


def _first(known: T | None, more: T | None) -> T | None:
    return more if known is None else known
