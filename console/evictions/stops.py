"""How long each phase of a stop took, and takes as a rule."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import median
from typing import Final

from django.db.models import QuerySet

from agents.wire.names import PHASES, Phase
from console import figures
from console.evictions.lifecycle import State
from console.evictions.models import Eviction, EvictionPhase

# The newest stops that a median is taken over.
LOOK_BACK: Final = 200
# With fewer stops of its own, a job family is judged by all jobs.
ENOUGH: Final = 5


@dataclass(frozen=True)
class Expectation:
    """Median seconds from the order to each phase, over `stops` stops of `whose` jobs."""

    seconds: Mapping[Phase, float]
    stops: int
    whose: str


def family(job_name: str) -> str:
    """`resnet` of `resnet-31`: jobs that differ by their number alone."""
    return re.sub(r"[-_]?\d+$", "", job_name)


def expected(job_name: str) -> Expectation:
    """What stops of this job family took; of all jobs where the family has too few."""
    done = Eviction.objects.filter(state=State.COMPLETED, finished_first=False)
    own = _seconds(done.filter(placement__job__name__startswith=family(job_name)))
    if len(own) >= ENOUGH:
        return Expectation(medians(own), len(own), f"{family(job_name)} jobs")
    everyones = _seconds(done)
    return Expectation(medians(everyones), len(everyones), "all jobs")


def _seconds(evictions: QuerySet[Eviction]) -> list[dict[Phase, float]]:
    newest = evictions.order_by("-ended_at").values("pk")[:LOOK_BACK]
    stops: dict[object, dict[Phase, float]] = {}
    rows = EvictionPhase.objects.filter(eviction__in=newest).values_list(
        "eviction_id", "phase", "at", "eviction__dispatch_at", "eviction__proposed_at"
    )
    for eviction_id, phase, at, dispatched, proposed in rows:
        stops.setdefault(eviction_id, {})[Phase(phase)] = _after(dispatched or proposed, at)
    return list(stops.values())


def medians(stops: Iterable[Mapping[Phase, float]]) -> dict[Phase, float]:
    """The median of each phase that occurs, never before that of an earlier phase."""
    stops, found, least = list(stops), {}, 0.0
    for phase in PHASES:
        if times := [stop[phase] for stop in stops if phase in stop]:
            least = found[phase] = max(least, median(times))
    return found


def took(eviction: Eviction, phases: Iterable[EvictionPhase]) -> dict[Phase, float]:
    """Seconds from the order to each phase that was reached."""
    begin = eviction.dispatch_at or eviction.proposed_at
    return {Phase(row.phase): _after(begin, row.at) for row in phases}


def _after(begin: datetime, at: datetime) -> float:
    """Two clocks may differ by a little; nothing happens before its order."""
    return max(0.0, (at - begin).total_seconds())


def stage_words(
    reached: Mapping[Phase, float], usual: Mapping[Phase, float], is_open: bool
) -> dict[str, str]:
    """`5.4 s` under each phase that was reached, `≈ 6 s` under those to come."""
    told = {phase.value: figures.span(seconds) for phase, seconds in reached.items()}
    if is_open:
        for phase, seconds in usual.items():
            told.setdefault(phase.value, f"≈ {figures.span(seconds)}")
    return told
