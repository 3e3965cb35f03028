"""The samples of one GPU over some minutes, put together from several recordings. Pure.

The same second may have been recorded in several places, and none has them all: the history (as
finely as it is still kept), the web process (the last minutes, which the history has not yet) and
the event of an eviction (what its node saw before it). The finest word on a moment counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# A pause longer than this many periods is a gap: clocks of two machines make one of two periods.
GAP_PERIODS: Final = 2.5


@dataclass(frozen=True)
class Reading:
    """One value in wire units: the last of its second, and its lowest and highest. In what was
    rolled up `last` is the mean."""

    last: float
    low: float
    high: float


Row = Mapping[str, Reading]


@dataclass(frozen=True)
class Recording:
    """Points `period_s` apart that `source` has, ascending; a value that is missing is not in its
    row."""

    source: str
    period_s: int
    points: Sequence[tuple[float, Row]]


@dataclass(frozen=True)
class Point:
    """An empty row says that from here on nothing is known."""

    at: float
    period_s: int
    source: str
    row: Row


@dataclass(frozen=True)
class Gap:
    start: float
    end: float


@dataclass(frozen=True)
class Footage:
    """Ascending points; those that end what is known are among them."""

    start: float
    end: float
    points: Sequence[Point]

    def at(self, moment: float) -> Row:
        """What was true at this moment; empty where nothing is known."""
        index = bisect_right([point.at for point in self.points], moment) - 1
        return self.points[index].row if index >= 0 else {}

    @property
    def sources(self) -> list[tuple[str, int]]:
        """Which recordings it is made of, with the period of each."""
        return list(dict.fromkeys((p.source, p.period_s) for p in self.points if p.row))

    @property
    def gaps(self) -> list[Gap]:
        """Where nothing is known, the ends of the ten minutes included."""
        if not self.points:
            return [Gap(self.start, self.end)]
        lead = [Gap(self.start, self.points[0].at)] if _late(self) else []
        ends = [point.at for point in self.points[1:]] + [self.end]
        return lead + [
            Gap(point.at, end)
            for point, end in zip(self.points, ends, strict=True)
            if not point.row
        ]


def assemble(recordings: Iterable[Recording], start: float, end: float) -> Footage:
    """Finest first; a coarse point that overlaps finer ones is left out."""
    chosen: dict[int, Point] = {}
    for recording in sorted(recordings, key=lambda one: one.period_s):
        taken = set(chosen)
        for at, row in recording.points:
            seconds = range(int(at), int(at) + recording.period_s)
            if row and start <= at < end and taken.isdisjoint(seconds):
                chosen[int(at)] = Point(at, recording.period_s, recording.source, row)
    points = [chosen[second] for second in sorted(chosen)]
    return Footage(start, end, list(_with_ends(points, end)))


def _with_ends(points: Sequence[Point], end: float) -> Iterator[Point]:
    """Each point, and behind one that none follows in time an empty one."""
    for number, point in enumerate(points):
        yield point
        following = points[number + 1] if number + 1 < len(points) else None
        period_s = max(point.period_s, following.period_s) if following else point.period_s
        if (following.at if following else end) - point.at > GAP_PERIODS * period_s:
            yield Point(point.at + point.period_s, point.period_s, point.source, {})


def _late(footage: Footage) -> bool:
    first = footage.points[0]
    return first.at - footage.start > GAP_PERIODS * first.period_s
