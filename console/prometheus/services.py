"""Set the source, try it, and fetch from it: the only writer of its rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from console.accounts import access
from console.accounts.models import Role, User
from console.audit import services as audit
from console.errors import Invalid, MuxFlowError
from console.prometheus import asking, mapping
from console.prometheus.answers import Sample
from console.prometheus.mapping import Matched, Place, Rule
from console.prometheus.models import Answer, Source
from console.workloads.models import OnlineInstance, OnlineService

KEPT: Final = timedelta(days=7)
ONLY: Final = 1
MOST_CHARS: Final = {
    "url": 500,
    "p99_query": 2_000,
    "qps_query": 2_000,
    "service_label": 100,
    "node_label": 100,
    "gpu_label": 100,
}


@dataclass(frozen=True)
class Wanted:
    """What a person set; see Source."""

    url: str
    p99_query: str
    p99_unit: str = "s"
    qps_query: str = ""
    service_label: str = "service"
    node_label: str = ""
    gpu_label: str = ""

    @property
    def rule(self) -> Rule:
        return Rule(self.service_label, self.node_label, self.gpu_label)

    @property
    def ms(self) -> float:
        return 1_000.0 if self.p99_unit == Source.Unit.SECONDS else 1.0


@dataclass(frozen=True)
class Trial:
    """What both queries answer now: p99 in ms. `others` belong to no service known here."""

    p99: list[Matched]
    qps: list[Matched]
    others: list[Sample]


def current() -> Source | None:
    return Source.objects.select_related("saved_by").filter(pk=ONLY).first()


def wanted(source: Source) -> Wanted:
    return Wanted(**{field.name: getattr(source, field.name) for field in fields(Wanted)})


def attempt(asked: Wanted, user: User) -> Trial:
    """Ask both queries. Raises PermissionDenied, Invalid and Unavailable."""
    access.require(user, Role.ADMIN)
    _check(asked)
    return _ask(asked)


def save(asked: Wanted, user: User, now: datetime) -> Trial:
    """In force from now on, once it was tried: what cannot be asked is not saved. Raises as
    `attempt` does, and Invalid where no series belongs to a service."""
    trial = attempt(asked, user)
    if not trial.p99:
        raise Invalid("No series of the p99 query belongs to a service: see its labels below.")
    values = {field.name: getattr(asked, field.name) for field in fields(Wanted)}
    with transaction.atomic():
        source, _ = Source.objects.update_or_create(
            pk=ONLY, defaults=values | {"saved_at": now, "saved_by": user, "failed_why": ""}
        )
        audit.record(audit.person(user), "prometheus.save", source, now=now, **values)
    return trial


def forget(user: User, now: datetime) -> None:
    """Ask no more, and throw away what was answered."""
    access.require(user, Role.ADMIN)
    with transaction.atomic():
        source = current()
        if source is None:
            return
        audit.record(audit.person(user), "prometheus.forget", source, now=now, url=source.url)
        Source.objects.filter(pk=ONLY).delete()
        Answer.objects.all().delete()


def fetch(now: datetime) -> None:
    """Ask the source, if there is one, and keep what it answers; why not is told on the page."""
    source = current()
    if source is None:
        return
    try:
        trial = _ask(wanted(source))
    except MuxFlowError as error:
        Source.objects.filter(pk=ONLY).update(failed_why=str(error)[:300])
        return
    with transaction.atomic():
        Answer.objects.bulk_create(_answers(trial, now), ignore_conflicts=True)
        Answer.objects.filter(at__lt=now - KEPT).delete()
        Source.objects.filter(pk=ONLY).update(fetched_at=now, failed_why="")


def _check(asked: Wanted) -> None:
    problems = {}
    for name, most in MOST_CHARS.items():
        if len(getattr(asked, name)) > most:
            problems[name] = f"at most {most} characters"
    for name in ("url", "p99_query", "service_label"):
        if not getattr(asked, name):
            problems[name] = "is needed"
    if asked.p99_unit not in Source.Unit.values:
        problems["p99_unit"] = "seconds or milliseconds"
    if problems:
        raise Invalid("Some values do not fit.", problems)


def _ask(asked: Wanted) -> Trial:
    places = _places()
    p99, others = mapping.match(asking.ask(asked.url, asked.p99_query), asked.rule, places)
    scaled = [
        Matched(one.service, one.instance, None if one.value is None else one.value * asked.ms)
        for one in p99
    ]
    if not asked.qps_query:
        return Trial(scaled, [], others)
    qps, more = mapping.match(asking.ask(asked.url, asked.qps_query), asked.rule, places)
    return Trial(scaled, qps, others + more)


def _places() -> list[Place]:
    rows = OnlineInstance.objects.filter(gpu__retired_at=None)
    return [
        Place(*row) for row in rows.values_list("service__name", "gpu__node__name", "gpu__index")
    ]


def _answers(trial: Trial, now: datetime) -> list[Answer]:
    """One a service: the slowest of its series, and the sum of their load."""
    p99, qps = _by_service(trial.p99), _by_service(trial.qps)
    counted: dict[str, int] = defaultdict(int)
    for one in trial.p99:
        counted[one.service] += 1
    ids = OnlineService.objects.filter(name__in={*p99, *qps}).values_list("name", "pk")
    return [
        Answer(
            service_id=pk,
            at=now,
            p99_ms=max(p99[name]) if p99.get(name) else None,
            qps=sum(qps[name]) if qps.get(name) else None,
            series=counted[name],
        )
        for name, pk in ids
    ]


def _by_service(matched: list[Matched]) -> dict[str, list[float]]:
    """Only values that are there."""
    found: dict[str, list[float]] = defaultdict(list)
    for one in matched:
        if one.value is not None:
            found[one.service].append(one.value)
    return found
