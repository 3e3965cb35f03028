"""What happened on one GPU, newest first: events of its agent, placements, evictions, decisions,
faults."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.urls import reverse

from agents.wire.names import EventKind
from console import figures, looks
from console.evictions import words
from console.evictions.models import Eviction
from console.faults import queries as faults
from console.faults.queries import Told
from console.inventory.models import Gpu
from console.scheduling.models import Decision, Placement
from console.telemetry.models import NodeEvent

LENGTH: Final = 30


@dataclass(frozen=True)
class Moment:
    """One line: `state` of `kind` gives the glyph (console.looks), `what` is bold."""

    at: datetime
    state: str
    kind: str
    what: str
    why: str = ""
    url: str = ""


def of(gpu: Gpu, length: int = LENGTH) -> list[Moment]:
    """The last `length` moments: five queries."""
    moments = [
        *(of_event(event) for event in _events(gpu, length)),
        *_placements(gpu, length),
        *(_eviction(eviction) for eviction in _evictions(gpu, length)),
        *(of_decision(decision) for decision in _decisions(gpu, length)),
        *(_fault(told) for told in faults.of_gpu(gpu)),
    ]
    return sorted(moments, key=lambda moment: moment.at, reverse=True)[:length]


def _events(gpu: Gpu, length: int) -> Sequence[NodeEvent]:
    told = (EventKind.TRANSITION, EventKind.FROZEN, EventKind.THAWED, EventKind.DEGRADED)
    return list(NodeEvent.objects.filter(gpu=gpu, kind__in=told).order_by("-at")[:length])


def _evictions(gpu: Gpu, length: int) -> Sequence[Eviction]:
    rows = Eviction.objects.filter(gpu=gpu).select_related(
        "placement__job", "gpu__node", "to_gpu__node", "decided_by"
    )
    return list(rows.order_by("-proposed_at")[:length])


def _decisions(gpu: Gpu, length: int) -> Sequence[Decision]:
    kinds = (Decision.Kind.MOVE, Decision.Kind.UNUSED)
    rows = Decision.objects.filter(gpu=gpu, kind__in=kinds).select_related("round", "job")
    return first_of_each(list(rows.order_by("-round")[: length * 4]))[:length]


def first_of_each(decisions: Sequence[Decision]) -> list[Decision]:
    """Rounds repeat themselves: of equal ones in a row the earliest is told."""
    told: list[Decision] = []
    for decision in decisions:
        if told and (told[-1].kind, told[-1].code) == (decision.kind, decision.code):
            told[-1] = decision
        else:
            told.append(decision)
    return told


def of_event(event: NodeEvent) -> Moment:
    data: Mapping[str, Any] = event.data
    why = str(data.get("why", ""))
    if event.kind == EventKind.TRANSITION:
        after = str(data.get("to", ""))
        what = f"{_word(str(data.get('from', '')))} → {_word(after)}"
        return Moment(event.at, after if after in looks.GPU else "INIT", "gpu", what, why)
    if event.kind == EventKind.FROZEN:
        return Moment(event.at, "GUARDED", "gpu", f"Frozen{_after(data)}", why)
    if event.kind == EventKind.THAWED:
        return Moment(event.at, "HEALTHY", "gpu", "Let go again", why)
    if event.kind == EventKind.EVICTION_STUCK:
        return Moment(event.at, "STUCK", "eviction", "The stop is stuck", why)
    if event.kind == EventKind.GAP:
        return Moment(event.at, "NO_DATA", "gpu", "Events of its node were lost", why)
    return Moment(event.at, "NO_DATA", "gpu", "Signals missing", _missing(data) or why)


def _missing(data: Mapping[str, Any]) -> str:
    names = data.get("missing")
    return ", ".join(str(name) for name in names) if isinstance(names, list) else ""


def _after(data: Mapping[str, Any]) -> str:
    reaction_ms = data.get("reaction_ms")
    if not isinstance(reaction_ms, int | float):
        return ""
    return f" after {figures.span(reaction_ms / 1000)}"


def _word(state: str) -> str:
    return looks.GPU[state].word if state in looks.GPU else state


def _placements(gpu: Gpu, length: int) -> Iterator[Moment]:
    rows = Placement.objects.filter(gpu=gpu).select_related("job", "round")
    for placement in rows.order_by("-created_at")[:length]:
        url = reverse("job", args=[placement.job_id])
        why = _predicted(placement)
        yield Moment(
            placement.created_at, "DESIRED", "placement", f"{placement.job} placed here", why, url
        )
        if placement.ended_at:
            end = placement.get_end_reason_display() or "ended"
            lost = _lost(placement)
            yield Moment(
                placement.ended_at, "ENDED", "placement", f"{placement.job} {end}", lost, url
            )


def _predicted(placement: Placement) -> str:
    by = f"by round {placement.round_id}" if placement.round_id else ""
    if placement.predicted_throughput is None:
        return by
    expected = figures.quantity(placement.predicted_throughput * 100, "%")
    return f"{by}: ≈ {expected} of its speed alone expected".removeprefix(": ")


def _lost(placement: Placement) -> str:
    if not placement.lost_work_s:
        return ""
    return f"{figures.span(placement.lost_work_s)} of work lost"


def _eviction(eviction: Eviction) -> Moment:
    url = reverse("eviction", args=[eviction.pk])
    look = looks.EVICTION[eviction.state].word
    what = f"Eviction of {eviction.placement.job}: {look[0].lower()}{look[1:]}"
    return Moment(eviction.state_since, eviction.state, "eviction", what, words.note(eviction), url)


def of_decision(decision: Decision) -> Moment:
    what = f"Round {decision.round_id}: {decision.get_kind_display()}"
    url = reverse("round", args=[decision.round_id])
    return Moment(decision.round.started_at, "DESIRED", "placement", what, decision.why, url)


def _fault(told: Told) -> Moment:
    fault = told.fault
    url, why = reverse("fault", args=[fault.pk]), f"{told.sentence} {told.outcome}."
    return Moment(fault.seen_at, fault.state, "fault", "GPU fault", why, url)
