"""What happened to one GPU in some minutes, as pins on their time line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeVar

from django.db.models import Model, QuerySet
from django.urls import reverse

from agents.wire.names import EventKind, GpuState
from console import looks
from console.evictions import words
from console.evictions.models import Eviction
from console.faults.models import Fault
from console.inventory.models import Gpu
from console.policies.models import PolicyVersion
from console.scheduling.models import Decision, Placement, Round
from console.telemetry import timeline
from console.telemetry.models import NodeEvent
from console.telemetry.timeline import Moment

M = TypeVar("M", bound=Model)

MOST: Final = 200
_EVENTS: Final = (
    EventKind.TRANSITION,
    EventKind.FROZEN,
    EventKind.THAWED,
    EventKind.DEGRADED,
    EventKind.EVICTION_STUCK,
    EventKind.GAP,
)


@dataclass(frozen=True)
class Stay:
    """The GPU was in this state (a key of console.looks.GPU; empty: not known) from then on."""

    start: float
    end: float
    state: str

    @property
    def tone(self) -> str:
        return looks.GPU[self.state or "NO_DATA"].tone


@dataclass(frozen=True)
class Pins:
    """`moments` ascending; `rounds` are all that began, also those that said nothing new here."""

    moments: Sequence[Moment]
    stays: Sequence[Stay]
    rounds: Sequence[tuple[int, datetime]]


def between(gpu: Gpu, versions: Sequence[PolicyVersion], start: datetime, end: datetime) -> Pins:
    """Nine queries."""
    events = list(_within(NodeEvent.objects.filter(gpu=gpu, kind__in=_EVENTS), "at", start, end))
    moments = [
        *(timeline.of_event(event) for event in events),
        *_evictions(gpu, start, end),
        *_placements(gpu, start, end),
        *_decisions(gpu, start, end),
        *_faults(gpu, start, end),
        *(_version(one) for one in versions if start <= one.created_at <= end),
    ]
    rounds = _within(Round.objects.all(), "started_at", start, end)
    return Pins(
        sorted(moments, key=lambda moment: moment.at),
        stays(_transitions(gpu, events, start), start.timestamp(), end.timestamp()),
        list(rounds.values_list("pk", "started_at")),
    )


def _within(rows: QuerySet[M], field: str, start: datetime, end: datetime) -> QuerySet[M]:
    return rows.filter(**{f"{field}__gte": start, f"{field}__lte": end}).order_by(field)[:MOST]


def _transitions(
    gpu: Gpu, events: Sequence[NodeEvent], start: datetime
) -> list[tuple[float, str, str]]:
    """(when, from, to), beginning with the last one before `start`."""
    rows = NodeEvent.objects.filter(gpu=gpu, kind=EventKind.TRANSITION, at__lt=start)
    before = rows.order_by("-at").first()
    told = [event for event in events if event.kind == EventKind.TRANSITION]
    return [
        (one.at.timestamp(), str(one.data.get("from", "")), str(one.data.get("to", "")))
        for one in ([before] if before else []) + told
    ]


def stays(transitions: Sequence[tuple[float, str, str]], start: float, end: float) -> list[Stay]:
    """In which state it was, from `start` to `end` without a hole."""
    steps = [(start, _before(transitions[0][1]) if transitions else "")]
    steps += [(max(start, at), _known(after)) for at, _, after in transitions]
    ends = [at for at, _ in steps[1:]] + [end]
    return [
        Stay(at, until, state) for (at, state), until in zip(steps, ends, strict=True) if until > at
    ]


def _before(state: str) -> str:
    """An agent starts with INIT: what was before that, it does not know."""
    return "" if state == GpuState.INIT else _known(state)


def _known(state: str) -> str:
    return state if state in looks.GPU else ""


def _evictions(gpu: Gpu, start: datetime, end: datetime) -> Iterator[Moment]:
    """What was decided of each, and each phase of its stop."""
    rows = Eviction.objects.filter(gpu=gpu, proposed_at__lte=end, state_since__gte=start)
    for eviction in rows.select_related("placement__job", "decided_by").prefetch_related("phases")[
        :MOST
    ]:
        for at, what, why in _steps(eviction):
            if at is not None and start <= at <= end:
                url = reverse("eviction", args=[eviction.pk])
                yield Moment(at, eviction.origin, "origin", what, why, url)


def _steps(eviction: Eviction) -> Iterator[tuple[datetime | None, str, str]]:
    job = eviction.placement.job
    began = "Eviction begun by the node" if eviction.by_node else "Eviction proposed"
    yield eviction.proposed_at, f"{began}: {job}", eviction.why
    if eviction.decided_at:
        yield eviction.decided_at, f"Decided by {words.who(eviction)}: {job}", eviction.reason
    for phase in eviction.phases.all():
        yield phase.at, f"{looks.PHASES[phase.phase]}: {job}", ""
    if eviction.ended_at:
        yield eviction.ended_at, f"{looks.EVICTION[eviction.state].word}: {job}", ""


def _placements(gpu: Gpu, start: datetime, end: datetime) -> Iterator[Moment]:
    rows = Placement.objects.filter(gpu=gpu, created_at__lte=end).select_related("job")
    for placement in rows.order_by("-created_at")[:20]:
        url = reverse("job", args=[placement.job_id])
        ended = f"{placement.job} {placement.get_end_reason_display() or 'ended'}"
        for at, state, what in (
            (placement.created_at, "DESIRED", f"{placement.job} placed here"),
            (placement.started_at, "RUNNING", f"{placement.job} runs"),
            (placement.ended_at, "ENDED", ended),
        ):
            if at is not None and start <= at <= end:
                yield Moment(at, state, "placement", what, "", url)


def _decisions(gpu: Gpu, start: datetime, end: datetime) -> Iterator[Moment]:
    rows = Decision.objects.filter(
        gpu=gpu,
        kind__in=(Decision.Kind.PLACE, Decision.Kind.MOVE, Decision.Kind.UNUSED),
        round__started_at__gte=start,
        round__started_at__lte=end,
    )
    told = list(rows.select_related("round", "job").order_by("-round")[:MOST])
    return (timeline.of_decision(one) for one in timeline.first_of_each(told))


def _faults(gpu: Gpu, start: datetime, end: datetime) -> Iterator[Moment]:
    for fault in _within(Fault.objects.filter(gpu=gpu), "seen_at", start, end):
        url = reverse("fault", args=[fault.pk])
        yield Moment(fault.seen_at, fault.state, "fault", "GPU fault", "", url)


def _version(version: PolicyVersion) -> Moment:
    url = reverse("policy", args=[version.policy.slug])
    what = f"{version} in force"
    return Moment(version.created_at, "DESIRED", "placement", what, version.reason, url)
