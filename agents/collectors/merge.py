"""One reading of a card from what several sources found. Pure.

Of each signal the first source in order that has a plausible value which is fresh enough holds;
`origins` remembers which. What is on the GPU, and how the SM activity divides, follows from the
list of processes and from xCUDA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from agents.collectors.attribution import (
    GpuProcess,
    Side,
    is_online,
    memory_of,
)
from agents.collectors.base import NOTHING, Finding, GpuReading, JobUse, Origin
from agents.collectors.card import Card
from agents.sysmonitor.signals import BOUNDS, POSITIONS
from agents.wire.names import SIGNALS, Signal


class Found(NamedTuple):
    """What a source found of one card, and when; `preferred` first in a sequence of these."""

    origin: Origin
    finding: Finding


def reading(card: Card, found: Sequence[Found], shares: Mapping[str, float]) -> GpuReading:
    """`shares` are the SM shares of our placements, in percent, by placement id."""
    values: list[float | None] = [None] * len(SIGNALS)
    origins: list[Origin | None] = [None] * len(SIGNALS)
    processes: tuple[GpuProcess, ...] | None = None
    processes_at: float | None = None
    jobs: tuple[JobUse, ...] | None = None
    throttled: tuple[str, ...] | None = None
    trouble = ""
    for one in found:
        origin, finding = one
        if finding.values is not NOTHING:
            _fill(values, origins, one, card)
        if processes is None and finding.processes is not None:
            processes, processes_at = finding.processes, origin.at
        jobs = finding.jobs if jobs is None else jobs
        throttled = finding.throttled if throttled is None else throttled
        trouble = trouble or finding.trouble
    sm_online, sm_offline = split(values[_SM], processes, jobs, shares)
    online = None if processes is None else [one for one in processes if is_online(one)]
    return GpuReading(
        card.index,
        tuple(values),
        sm_online,
        sm_offline,
        None if online is None else len(online),
        None if online is None else memory_of(online),
        _offline_memory(processes, jobs),
        tuple(origins),
        _missing(found, values),
        throttled,
        trouble,
        processes,
        processes_at,
    )


def _fill(values: list[float | None], origins: list[Origin | None], one: Found, card: Card) -> None:
    """What no source before this one had, and can be."""
    origin, bounds = one.origin, _bounds(card.memory_bytes)
    for place, value in enumerate(one.finding.values):
        if value is not None and values[place] is None:
            low, high = bounds[place]
            if low <= value <= high:
                values[place], origins[place] = value, origin


_SM: Final = POSITIONS[Signal.SM_ACTIVITY]


@lru_cache
def _bounds(memory_bytes: int) -> tuple[tuple[float, float], ...]:
    """Of each signal, on a card of this memory."""
    low, high = BOUNDS[Signal.MEMORY]
    bounds = BOUNDS | {Signal.MEMORY: (low, min(high, memory_bytes))}
    return tuple(bounds[signal] for signal in SIGNALS)


def _missing(found: Sequence[Found], values: Sequence[float | None]) -> dict[Signal, str]:
    """Why each value that is not there is not; the first source that knows is believed."""
    told: dict[Signal, str] = {}
    for origin, finding in found:
        for signal, why in finding.missing.items():
            if values[POSITIONS[signal]] is None:
                told.setdefault(signal, f"{origin.source}: {why}")
    return told


def split(
    sm_percent: float | None,
    processes: Sequence[GpuProcess] | None,
    jobs: Sequence[JobUse] | None,
    shares: Mapping[str, float],
) -> tuple[float | None, float | None]:
    """Online and offline SM activity in percent of the card.

    With one side alone on the card all of it is that side's. With both, no counter tells them
    apart: the offline side has at most its SM share in the part of the time in which its launches
    were in flight, and the online side has the rest. That is the least that online can have;
    where offline kernels do not fill their share it has more.
    """
    if sm_percent is None or processes is None:
        return None, None
    online = any(is_online(process) for process in processes)
    ours = {one.placement_id for one in processes if one.placement_id is not None}
    if not ours:
        return sm_percent, 0.0
    if not online:
        return 0.0, sm_percent
    busy = {job.placement_id: job.busy for job in jobs or ()}
    most = 0.0
    for placement in ours:
        part, share = busy.get(placement), shares.get(placement)
        if part is None or share is None:
            return None, None
        most += part * share
    offline = min(sm_percent, most)
    return sm_percent - offline, offline


def _offline_memory(
    processes: Sequence[GpuProcess] | None, jobs: Sequence[JobUse] | None
) -> int | None:
    """From the driver; from what xCUDA counts where the driver does not say. A process that
    nobody can attribute may be one of ours: then it is not known."""
    if processes is None:
        return None
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
