"""What a node has done since this process began, counted. Pure.

Counted from the events that the console is told, so that the two never disagree; and from the
stops that were ordered, which the console knows of already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from agents.wire.names import EventKind, GpuState, Origin, Phase

# Upper bounds of the histogram of stop phases, in seconds.
BOUNDS_S: Final = (0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


@dataclass(slots=True)
class Histogram:
    """Seconds. `counts` has one more place than `BOUNDS_S`: for what is over all of them."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS_S) + 1))
    sum_s: float = 0.0

    def add(self, seconds: float) -> None:
        within = sum(bound < seconds for bound in BOUNDS_S)
        self.counts[within] += 1
        self.sum_s += seconds


class Tally:
    """Counters of one node, by the index of the GPU where there is one."""

    def __init__(self) -> None:
        self.transitions: Counter[tuple[int, GpuState]] = Counter()
        self.freezes: Counter[int] = Counter()
        self.thaws: Counter[int] = Counter()
        self.evictions: Counter[tuple[int, Origin]] = Counter()
        self.phases: dict[Phase, Histogram] = {}
        self.gaps = 0
        self.dropped = 0
        # When the last phase of a stop was reached, by placement.
        self._reached: dict[str, float] = {}

    def note(
        self,
        kind: EventKind,
        gpu_index: int | None,
        placement_id: str | None,
        data: Mapping[str, Any],
        now: float,
    ) -> None:
        """One event, whether or not the spool has room for it; `now` in monotonic seconds."""
        match kind, gpu_index, placement_id:
            case EventKind.TRANSITION, int(), _:
                self.transitions[gpu_index, GpuState(data["to"])] += 1
            case EventKind.FROZEN, int(), _:
                self.freezes[gpu_index] += 1
            case EventKind.THAWED, int(), _:
                self.thaws[gpu_index] += 1
            case EventKind.EVICTION_STARTED, int(), str():
                self.evictions[gpu_index, Origin(data["origin"])] += 1
                self._reached[placement_id] = now
            case EventKind.EVICTION_PHASE, _, str():
                self._phase(placement_id, Phase(data["phase"]), now)
            case EventKind.PLACEMENT_ENDED, _, str():
                self._reached.pop(placement_id, None)

    def ordered(self, gpu_index: int, origin: Origin, placement_id: str, now: float) -> None:
        """A stop that is not the node's own wish."""
        self.evictions[gpu_index, origin] += 1
        self._reached[placement_id] = now

    def _phase(self, placement_id: str, phase: Phase, now: float) -> None:
        """How long it took to get there. Of a stop that an earlier process began, nobody knows."""
        before = self._reached.get(placement_id)
        if before is not None:
            self.phases.setdefault(phase, Histogram()).add(max(0.0, now - before))
        self._reached[placement_id] = now
