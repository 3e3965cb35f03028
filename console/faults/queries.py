"""What pages and the API read of faults, in a fixed number of queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Final
from uuid import UUID

from django.db.models import Q, QuerySet
from django.urls import reverse

from console.accounts.models import User
from console.api import in_sight
from console.faults import words
from console.faults.models import Fault
from console.faults.story import Moment, Process, Side
from console.inventory.models import Gpu, Node
from console.scheduling.models import Placement
from console.workloads.models import OfflineJob, OnlineService

# The newest that a page of something else shows.
SHOWN: Final = 5
WITH_ALL: Final = ("gpu__node__pool", "job", "service")


def faults(user: User) -> QuerySet[Fault]:
    """Those on GPUs of the pools that `user` may see, newest first."""
    return in_sight(Fault.objects.select_related(*WITH_ALL), user, "gpu__node__pool")


def of_gpu(gpu: Gpu) -> list[Told]:
    return _newest(Q(gpu=gpu))


def of_node(node: Node) -> list[Told]:
    return _newest(Q(gpu__node=node))


def of_job(job: OfflineJob) -> list[Told]:
    """Those that it caused, and those that hit it."""
    return _newest(Q(job=job) | Q(jobs_hit=job))


def of_service(service: OnlineService) -> list[Told]:
    """Those that hit it, and those that it caused."""
    return _newest(Q(service=service) | Q(services_hit=service))


def newest_on(node: Node, since: datetime) -> Told | None:
    """The newest fault on `node` since then; None: none was told."""
    return next((one for one in of_node(node) if one.fault.seen_at >= since), None)


def _newest(which: Q) -> list[Told]:
    rows = Fault.objects.filter(which).select_related(*WITH_ALL).distinct()
    return [Told(fault) for fault in rows.order_by("-seen_at", "pk")[:SHOWN]]


@dataclass(frozen=True)
class Victim:
    """A process that was on the GPU. `url`: the page of its job or service; "": unknown here."""

    process: Process
    was_first: bool
    url: str

    @property
    def name(self) -> str:
        return words.name(self.process)


class Told:
    """One fault as a page tells it; nothing is asked of the database before it is used."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault

    @cached_property
    def first(self) -> Process | None:
        return Process(**self.fault.first) if self.fault.first else None

    @cached_property
    def others(self) -> list[Process]:
        return [Process(**one) for one in self.fault.others]

    @cached_property
    def moments(self) -> list[Moment]:
        return [Moment(**one) for one in self.fault.moments]

    @property
    def first_name(self) -> str:
        """ "": nobody knows."""
        return words.name(self.first) if self.first else ""

    @property
    def sentence(self) -> str:
        fault = self.fault
        return words.sentence(self.first, fault.first_by, fault.code, self.others)

    @property
    def who_else(self) -> str:
        return words.who(self.others) or "nobody else"

    @property
    def outcome(self) -> str:
        return words.outcome(self.fault.state, self.fault.recovered_s)

    @cached_property
    def victims(self) -> list[Victim]:
        """The first, then all others, online before offline."""
        first = [(self.first, True)] if self.first else []
        rest = sorted(self.others, key=lambda one: one.side != Side.ONLINE)
        return [
            Victim(process, was_first, self._url(process))
            for process, was_first in [*first, *((one, False) for one in rest)]
        ]

    def _url(self, process: Process) -> str:
        if process.side == Side.ONLINE:
            service_id = self._services.get(process.name)
            return reverse("service", args=[service_id]) if service_id else ""
        job_id = self._jobs.get(process.placement_id or "")
        return reverse("job", args=[job_id]) if job_id else ""

    @cached_property
    def _jobs(self) -> Mapping[str, UUID]:
        """Of this node's placements alone, whatever the story names."""
        ids = [one.placement_id for one in self._all if one.placement_id]
        rows = Placement.objects.filter(pk__in=ids, gpu__node=self.fault.gpu.node_id)
        return {str(pk): job_id for pk, job_id in rows.values_list("pk", "job_id")}

    @cached_property
    def _services(self) -> Mapping[str, int]:
        known = self.fault.services_hit.values_list("name", "pk")
        service = self.fault.service
        return {**dict(known), **({service.name: service.pk} if service else {})}

    @property
    def _all(self) -> Iterator[Process]:
        if self.first:
            yield self.first
        yield from self.others
