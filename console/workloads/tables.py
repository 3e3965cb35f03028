"""The lists of jobs and of services."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import django_tables2 as tables
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from console import figures
from console.lists import NUMBER, WIDE, WIDE_NUMBER, Table
from console.templatetags import muxflow
from console.workloads.models import OfflineJob
from console.workloads.queries import ServiceRow

PENDING: Final = "waits for a free GPU to be measured on"


class JobTable(Table):
    place = tables.Column(verbose_name="#", accessor="pk", attrs=NUMBER, orderable=False)
    name = tables.Column(verbose_name="Job")
    state = tables.Column()
    team = tables.Column(verbose_name="Team", accessor="team__name", attrs=WIDE)
    priority = tables.Column(attrs=WIDE_NUMBER)
    work_s = tables.Column(verbose_name="Length alone", attrs=WIDE_NUMBER)
    done = tables.Column(verbose_name="Done", accessor="pk", attrs=WIDE_NUMBER, orderable=False)
    evictions = tables.Column(verbose_name="Evicted", attrs=WIDE_NUMBER)
    submitted_at = tables.Column(verbose_name="Submitted", attrs=WIDE_NUMBER)
    where = tables.Column(verbose_name="Where, or why not", accessor="pk", orderable=False)

    def __init__(
        self,
        request: HttpRequest,
        rows: Any,
        places: Mapping[UUID, int],
        now: datetime,
        **options: Any,
    ) -> None:
        self.places, self.now = places, now
        super().__init__(request, rows, **options)

    def render_place(self, record: OfflineJob) -> str:
        place = self.places.get(record.pk)
        return f"{place:,}" if place else ""

    def render_name(self, record: OfflineJob) -> SafeString:
        return format_html('<a href="{}">{}</a>', reverse("job", args=[record.pk]), record.name)

    def render_state(self, record: OfflineJob) -> SafeString:
        if record.live and record.state != OfflineJob.State.PROFILING:  # type: ignore[attr-defined]  # prefetched by queries.jobs
            return muxflow.state(record.live[0].state, "placement")  # type: ignore[attr-defined]
        return muxflow.state("HELD" if record.is_held(self.now) else record.state, "job")

    def render_work_s(self, value: float) -> str:
        return figures.span(value)

    def render_done(self, record: OfflineJob) -> str:
        return muxflow.share(done(record))

    def render_evictions(self, value: int) -> str:
        return f"{value:,}"

    def render_submitted_at(self, record: OfflineJob) -> SafeString:
        return muxflow.ago(record.submitted_at)

    def render_where(self, record: OfflineJob) -> SafeString | str:
        if record.live:  # type: ignore[attr-defined]
            gpu = record.live[0].gpu  # type: ignore[attr-defined]
            return format_html('<a href="{}">{}</a>', reverse("gpu", args=[gpu.pk]), gpu)
        if record.is_held(self.now):
            return format_html('<span class="q reason">{}</span>', held(record))
        if record.state == OfflineJob.State.PENDING:
            return format_html('<span class="q reason">{}</span>', PENDING)
        if record.state == OfflineJob.State.QUEUED:
            reason = record.wait_reason or "no round has looked at it yet"
            return format_html('<span class="q reason" title="{0}">{0}</span>', reason)
        return ""


def held(job: OfflineJob) -> SafeString:
    """`Held until 12:04:10 after 2 faults`."""
    until, several = muxflow.moment(job.held_until), "" if job.faults == 1 else "s"
    return format_html("Held until {} after {} fault{}", until, job.faults, several)


def done(job: OfflineJob) -> float | None:
    """The part of the work that is done; None when the node has not told."""
    if job.state == OfflineJob.State.SUCCEEDED:
        return 1.0
    if job.live:  # type: ignore[attr-defined]
        progress: float | None = job.live[0].progress  # type: ignore[attr-defined]
        return progress
    return job.saved_work_s / job.work_s


class ServiceTable(Table):
    name = tables.Column(verbose_name="Service")
    team = tables.Column(verbose_name="Team", accessor="service__team__name", attrs=WIDE)
    pool = tables.Column(verbose_name="Pool", accessor="service__pool__name", attrs=WIDE)
    tier = tables.Column(accessor="service__tier", attrs=WIDE_NUMBER)
    instances = tables.Column(attrs=WIDE_NUMBER)
    neighbours = tables.Column(verbose_name="With a neighbour", attrs=WIDE_NUMBER)
    qps = tables.Column(verbose_name="Load", attrs=NUMBER)
    p99_ms = tables.Column(verbose_name="p99", attrs=NUMBER)
    slo = tables.Column(verbose_name="SLO", accessor="service__slo_p99_ms", attrs=WIDE_NUMBER)
    ratio = tables.Column(verbose_name="p99 against SLO", attrs=WIDE)
    over = tables.Column(verbose_name="Now")

    class Meta:
        order_by = "name"

    def render_name(self, record: ServiceRow) -> SafeString:
        address = reverse("service", args=[record.service.pk])
        return format_html('<a href="{}">{}</a>', address, record.name)

    def render_qps(self, value: float) -> str:
        return figures.quantity(value, "/s")

    def render_p99_ms(self, value: float, record: ServiceRow) -> str:
        """So finely that it does not read as its SLO when it is over it."""
        slo = record.service.slo_p99_ms
        close = slo is not None and value > slo and round(value) == round(slo)
        return figures.quantity(value, "ms", 1 if close else 0)

    def render_slo(self, value: float) -> str:
        return figures.quantity(value, "ms")

    def render_ratio(self, value: float) -> SafeString:
        return muxflow.meter(value * 100, 150, slo=100)

    def render_over(self, record: ServiceRow) -> SafeString:
        if record.p99_ms is None:
            return muxflow.tone("unknown", "No live data", "cross")
        if record.ratio is None:
            return muxflow.tone("disabled", "No SLO", "dash")
        if record.over:
            return muxflow.tone("overloaded", "Over its SLO", "triangle")
        return muxflow.tone("healthy", "Within its SLO", "disc")
