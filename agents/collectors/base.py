"""The one shape all collectors have, and the one all their sources have.

A collector is asked by the node on every local sample and answers at once. A source is one place
that values come from (NVML, DCGM, a service's metrics, ...); it may be slow, broken or absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

from agents.collectors.attribution import GpuProcess
from agents.sysmonitor.signals import Values
from agents.wire.names import SIGNALS, Signal

NOTHING: Final[Values] = (None,) * len(SIGNALS)
# The one reason for a low clock that says nothing of the card's load.
SET_BY_HAND: Final = "clocks set by an administrator"
NO_REASONS: Final[Mapping[Signal, str]] = {}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value came from, and when that source looked (monotonic seconds)."""

    source: str
    at: float


@dataclass(frozen=True, slots=True)
class Look:
    """How one source did the last time it was asked.

    `at` is when it was asked (monotonic seconds), None before the first time; `why` tells what
    failed. A look that has not ended yet is no success once it is late.
    """

    source: str
    at: float | None
    duration_s: float | None
    success: bool
    why: str = ""


class GpuReading(msgspec.Struct, frozen=True):
    """One GPU at one moment, as far as its sources can tell; None where they cannot.

    `values` are in wire units, in the order of `names.SIGNALS`, and `origins` says where each
    came from. `missing` says why a value is not there, where the source knows. `throttled` are
    the reasons for a lowered clock. `trouble` is a sentence about a card that only a person can
    bring back. `processes` are all that use the GPU; None where nobody can list them.
    `processes_at` is when that list was made (monotonic seconds), None: with this reading.
    """

    index: int
    values: Values
    sm_online_percent: float | None = None
    sm_offline_percent: float | None = None
    online_processes: int | None = None
    online_memory_bytes: int | None = None
    offline_memory_bytes: int | None = None
    origins: tuple[Origin | None, ...] = ()
    missing: Mapping[Signal, str] = {}
    throttled: tuple[str, ...] | None = None
    trouble: str = ""
    processes: tuple[GpuProcess, ...] | None = None
    processes_at: float | None = None


@dataclass(frozen=True, slots=True)
class NodeReading:
    """All GPUs that were found at `at` (monotonic seconds), and how each source did. `earlier` are
    samples that were taken since the last reading without being asked for, oldest first."""

    at: float
    gpus: tuple[GpuReading, ...]
    looks: tuple[Look, ...] = ()
    earlier: tuple[NodeReading, ...] = ()


class Collector(Protocol):
    """What a node samples its GPUs through."""

    def collect(self, now: float) -> NodeReading | None:
        """What shows at `now` (monotonic seconds); None for "no data", no error.

        May raise: the node then goes on as without data, and its log says why.
        """

    def close(self) -> None:
        """Lets go of what it reads from."""


@dataclass(frozen=True, slots=True)
class JobUse:
    """What the processes of one offline job say of themselves, through xCUDA.

    `busy` is the part of the time since the last look in which launches were in flight, 0..1;
    None until there were two looks. `pids` are its live processes, verified by start time.
    """

    placement_id: str
    busy: float | None
    memory_bytes: int
    pids: frozenset[int]


class Finding(msgspec.Struct, frozen=True):
    """What one source found of one GPU; `values` as in `GpuReading`, None or empty: not its
    business, or not to be had. Whoever merges findings holds each value against its bounds."""

    values: Values = NOTHING
    missing: Mapping[Signal, str] = NO_REASONS
    throttled: tuple[str, ...] | None = None
    trouble: str = ""
    processes: tuple[GpuProcess, ...] | None = None
    jobs: tuple[JobUse, ...] | None = None


# By the UUID of the GPU.
Findings = Mapping[str, Finding]


class Source(Protocol):
    """One place that values come from. Asked from one thread, never twice at once.

    `period_s` is how often it is asked; what it found counts for `max_age_s` at most. `prompt`:
    the collector waits a moment for its answer, so that a local sample is as fresh as can be.
    `is_idle`: there is nothing to ask for now.
    """

    name: str
    max_age_s: float
    prompt: bool

    @property
    def period_s(self) -> float: ...

    @property
    def is_idle(self) -> bool: ...

    def look(self, now: float) -> Findings:
        """What it shows now (monotonic seconds). May take long. Raises to say that it failed."""

    def close(self) -> None: ...


class Unavailable(RuntimeError):
    """A source cannot be read; the text is one sentence with the way out."""


def values_of(found: Mapping[Signal, float | None]) -> Values:
    """In the order of a sample."""
    return tuple(found.get(signal) for signal in SIGNALS)
