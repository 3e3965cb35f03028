"""What a neighbour did to a service in the last day, from the history of its instances' GPUs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.db.models import Count, QuerySet

from agents.wire.names import Signal
from console.history import ranges
from console.history.points import Chart
from console.inventory.models import Gpu
from console.workloads import load_bins
from console.workloads.load_bins import Bin, Comparison, Minute
from console.workloads.models import OnlineInstance, OnlineService

SPAN: Final = timedelta(days=1)
MINUTES: Final = 1_440
# Two queries each.
MOST_GPUS: Final = 8
_P99, _QPS, _GUESTS = Signal.ONLINE_P99.value, Signal.ONLINE_QPS.value, "offline_processes"


@dataclass(frozen=True)
class Beside:
    comparison: Comparison
    gpus: int
    instances: int


def read(service: OnlineService, now: datetime) -> Beside:
    """Only GPUs with one online instance: of two nobody could say whose p99 it is."""
    mine = OnlineInstance.objects.filter(service=service, gpu__retired_at=None)
    chosen = mine.filter(gpu__in=_with_one_instance().values("pk")).order_by("pk")
    gpus = list(chosen.values_list("gpu_id", flat=True)[:MOST_GPUS])
    minutes = [minute for gpu_id in gpus for minute in _minutes(gpu_id, now)]
    return Beside(load_bins.compare(minutes), len(gpus), mine.count())


def at_load(gpu_id: int, qps: float | None, now: datetime) -> Bin | None:
    """What is known of one GPU at a load; None where its load or whose it is cannot be told."""
    if qps is None or not _with_one_instance().filter(pk=gpu_id).exists():
        return None
    bins = load_bins.compare(list(_minutes(gpu_id, now))).bins
    return next((one for one in bins if one.low_qps <= qps < one.high_qps), None)


def _with_one_instance() -> QuerySet[Gpu]:
    return Gpu.objects.annotate(online=Count("instances")).filter(online=1)


def _minutes(gpu_id: int, now: datetime) -> Iterator[Minute]:
    start, end = (now - SPAN).timestamp(), now.timestamp()
    names = (_P99, _QPS, _GUESTS)
    yield from of_chart(gpu_id, ranges.chart(ranges.Gpu(gpu_id), names, start, end, MINUTES, end))


def of_chart(gpu_id: int, chart: Chart) -> Iterator[Minute]:
    """Points with everything known and the same neighbour, or none, from end to end."""
    p99, qps, guests = (chart.series[name] for name in (_P99, _QPS, _GUESTS))
    for at, p99_ms, load, least, most in zip(
        chart.times, p99.mean, qps.mean, guests.low, guests.high, strict=True
    ):
        if p99_ms is None or load is None or least is None or most is None:
            continue
        if least >= 1 or most == 0:
            yield Minute(gpu_id, at, load, p99_ms, least >= 1)
