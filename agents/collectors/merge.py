"""One reading of a card from what several sources found. Pure.

Of each signal the first source in order that has a plausible value which is fresh enough holds;
`origins` remembers which. What is on the GPU, and how the SM activity divides, follows from the
list of processes and from xCUDA.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from agents.collectors.attribution import GpuProcess, Side, is_online, memory_of
from agents.collectors.base import NO_REASONS, NOTHING, Finding, GpuReading, JobUse, Origin
from agents.collectors.card import Card
from agents.sysmonitor.signals import BOUNDS, POSITIONS
from agents.wire.names import SIGNALS, Signal

# What a source found of one card, and when; `preferred` first in a sequence of these.
Found: TypeAlias = tuple[Origin, Finding]
Processes: TypeAlias = Sequence[GpuProcess] | None
Jobs: TypeAlias = Sequence[JobUse] | None
Shares: TypeAlias = Mapping[str, float]


class Merger:
    """Of one card. What follows from who is there is worked out anew when that was told anew, not
    on each sample."""

    def __init__(self, card: Card) -> None:
        self._index, self._bounds = card.index, _bounds(card.memory_bytes)
        self._told: tuple[object, object, object] = (None, None, None)
        self._sides = NOBODY_KNOWS

    def reading(self, found: Sequence[Found], shares: Shares) -> GpuReading:
        """`shares` are the SM shares of our placements, in percent, by placement id."""
        values: list[float | None] = [None] * len(SIGNALS)
        origins: list[Origin | None] = [None] * len(SIGNALS)
        processes: tuple[GpuProcess, ...] | None = None
        processes_at: float | None = None
        jobs: tuple[JobUse, ...] | None = None
        throttled: tuple[str, ...] | None = None
        trouble = ""
        for origin, finding in found:
            if finding.values is not NOTHING:
                self._fill(values, origins, origin, finding)
            if processes is None and finding.processes is not None:
                processes, processes_at = finding.processes, origin.at
            jobs = finding.jobs if jobs is None else jobs
            throttled = finding.throttled if throttled is None else throttled
            trouble = trouble or finding.trouble
        sides = self._of(processes, jobs, shares)
        sm_online, sm_offline = sides.split(values[_SM])
        return GpuReading(
            self._index,
            tuple(values),
            sm_online,
            sm_offline,
            sides.online_processes,
            sides.online_memory_bytes,
            sides.offline_memory_bytes,
            tuple(origins),
            _missing(found, values),
            throttled,
            trouble,
            processes,
            processes_at,
        )

    def _fill(
        self,
        values: list[float | None],
        origins: list[Origin | None],
        origin: Origin,
        finding: Finding,
    ) -> None:
        """What no source before this one had, and can be."""
        bounds = self._bounds
        for place, value in enumerate(finding.values):
            if value is not None and values[place] is None:
                low, high = bounds[place]
                if low <= value <= high:
                    values[place], origins[place] = value, origin

    def _of(self, processes: Processes, jobs: Jobs, shares: Shares) -> Sides:
        before = self._told
        if before[0] is not processes or before[1] is not jobs or before[2] is not shares:
            self._told = (processes, jobs, shares)
            self._sides = sides(processes, jobs, shares)
        return self._sides


_SM: Final = POSITIONS[Signal.SM_ACTIVITY]


def _bounds(memory_bytes: int) -> tuple[tuple[float, float], ...]:
    """Of each signal, on a card of this memory."""
    low, high = BOUNDS[Signal.MEMORY]
    bounds = BOUNDS | {Signal.MEMORY: (low, min(high, memory_bytes))}
    return tuple(bounds[signal] for signal in SIGNALS)


def _missing(found: Sequence[Found], values: Sequence[float | None]) -> Mapping[Signal, str]:
    """Why each value that is not there is not; the first source that knows is believed."""
    told: dict[Signal, str] = {}
    for origin, finding in found:
        for signal, why in finding.missing.items() if finding.missing else ():
            if values[POSITIONS[signal]] is None:
                told.setdefault(signal, f"{origin.source}: {why}")
    return told or NO_REASONS


@dataclass(frozen=True, slots=True)
class Sides:
    """Who is on a card; None where nobody can tell. `online`, `offline`: some process of that side
    is. `most_percent`: the most SM activity that the offline side can have."""

    is_known: bool = False
    online: bool = False
    offline: bool = False
    most_percent: float | None = None
    online_processes: int | None = None
    online_memory_bytes: int | None = None
    offline_memory_bytes: int | None = None

    def split(self, sm_percent: float | None) -> tuple[float | None, float | None]:
        """Online and offline SM activity in percent of the card.

        With one side alone on the card all of it is that side's. With both, no counter tells them
        apart: the offline side has at most its SM share in the part of the time in which its
        launches were in flight, and the online side has the rest. That is the least that online
        can have; where offline kernels do not fill their share it has more.
        """
        if sm_percent is None or not self.is_known:
            return None, None
        if not self.offline:
            return sm_percent, 0.0
        if not self.online:
            return 0.0, sm_percent
        if self.most_percent is None:
            return None, None
        offline_percent = min(sm_percent, self.most_percent)
        return sm_percent - offline_percent, offline_percent


NOBODY_KNOWS: Final = Sides()


def sides(processes: Processes, jobs: Jobs, shares: Shares) -> Sides:
    """`shares` as for `Merger.reading`."""
    if processes is None:
        return NOBODY_KNOWS
    online = [one for one in processes if is_online(one)]
    ours = {one.placement_id for one in processes if one.placement_id is not None}
    return Sides(
        True,
        bool(online),
        bool(ours),
        _most_percent(ours, jobs, shares),
        len(online),
        memory_of(online),
        _offline_memory(processes, jobs),
    )


def _most_percent(ours: Collection[str], jobs: Jobs, shares: Shares) -> float | None:
    busy = {job.placement_id: job.busy for job in jobs or ()}
    most = 0.0
    for placement in ours:
        part, share = busy.get(placement), shares.get(placement)
        if part is None or share is None:
            return None
        most += part * share
    return most


def _offline_memory(processes: Sequence[GpuProcess], jobs: Jobs) -> int | None:
    """From the driver; from what xCUDA counts where the driver does not say. A process that
    nobody can attribute may be one of ours: then it is not known."""
    ours = [one for one in processes if one.side is Side.OFFLINE]
    if not ours and any(one.side is Side.UNATTRIBUTED for one in processes):
        return None
    told = memory_of(ours)
    if told is not None:
        return told
    counted = {job.placement_id: job.memory_bytes for job in jobs or ()}
    if any(one.placement_id not in counted for one in ours):
        return None
    return sum(counted[one] for one in {one.placement_id for one in ours} if one is not None)
