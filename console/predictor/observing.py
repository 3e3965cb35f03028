"""Observe running pairs: look at all that share a GPU now, and write down each window that is full.

Only what telemetry and the nodes' own reports tell is used; nothing is known here of how a
simulated fleet makes its numbers.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from django.conf import settings
from django.db.models import Count, F, Window
from django.db.models.functions import RowNumber

from agents.wire.names import EventKind, PlacementState
from console.errors import Unavailable
from console.inventory.models import Gpu
from console.predictor import solo, window_store, windows
from console.predictor.models import PairObservation
from console.predictor.windows import Reading, Sample
from console.scheduling import lifecycle, reading
from console.scheduling.models import Placement
from console.scheduling.snapshot import Use
from console.telemetry import live_store
from console.telemetry.latest import LiveGpu
from console.telemetry.models import NodeEvent
from console.workloads.models import OnlineInstance, OnlineService

# What a node told of a placement is old after this long. Our choice, as are those below.
FRESH_S: Final = 12.0
# So many placements are watched at once, and so many windows written at once, rare pairs first.
MOST_WATCHED: Final = 600
MOST_WRITTEN: Final = 300
# The newest of each pair are kept, and the newest of all.
KEPT_OF_A_PAIR: Final = 60
KEPT: Final = 30_000

Live = Mapping[int, LiveGpu]


@dataclass(frozen=True)
class Pair:
    """A running placement beside the one online service of its GPU."""

    placement: Placement
    service: OnlineService

    @property
    def gpu(self) -> Gpu:
        return self.placement.gpu

    @property
    def name(self) -> tuple[str, str]:
        return self.service.name, windows.family_of(self.placement.job.name)


def observe(now: datetime) -> int:
    """How many observations were written. Without live data, or without Redis, none."""
    try:
        live, open_ = live_store.read(), window_store.read()
        services = _services()
        _note_solo(services, live, now)
        pairs = {str(pair.placement.pk): pair for pair in _pairs(services, open_)}
        samples = _samples(pairs.values(), live, now)
        going_on, full = windows.advance(open_, samples, settings.OBSERVATION_WINDOW_S)
        window_store.write(going_on)
    except Unavailable:
        return 0
    return _write([(pairs[key], window) for key, window in full.items()])


# --- who is beside whom -------------------------------------------------------------------


def _services() -> dict[int, OnlineService]:
    """The service on each GPU that has exactly one, by GPU id."""
    on = defaultdict[int, list[int]](list)
    for gpu_id, service_id in OnlineInstance.objects.values_list("gpu_id", "service_id"):
        on[gpu_id].append(service_id)
    services = OnlineService.objects.in_bulk()
    single = {gpu_id: few[0] for gpu_id, few in on.items() if len(few) == 1}
    return {gpu_id: services[one] for gpu_id, one in single.items() if one in services}


def _pairs(services: Mapping[int, OnlineService], open_: windows.Windows) -> Iterator[Pair]:
    running = Placement.objects.filter(
        state=PlacementState.RUNNING, gpu__in=_some(services, open_)
    ).select_related("job", "gpu__node")
    for placement in running:
        yield Pair(placement, services[placement.gpu_id])


def _some(services: Mapping[int, OnlineService], open_: windows.Windows) -> list[int]:
    """The GPUs to watch: those of open windows, then others by lot."""
    held = Placement.objects.filter(state=PlacementState.RUNNING).values_list("pk", "gpu_id")
    shared = [(str(pk) not in open_, random.random(), gpu) for pk, gpu in held if gpu in services]
    return [gpu for _, _, gpu in sorted(shared)[:MOST_WATCHED]]


def _note_solo(services: Mapping[int, OnlineService], live: Live, now: datetime) -> None:
    guests = Placement.objects.filter(state__in=lifecycle.LIVE).values_list("gpu_id", flat=True)
    alone = [live[gpu_id] for gpu_id in services.keys() - set(guests) if gpu_id in live]
    looked_at = random.sample(alone, min(len(alone), MOST_WATCHED))
    few = [sample.gpu_id for sample in looked_at]
    models = dict(Gpu.objects.filter(pk__in=few).values_list("pk", "model"))
    solo.note(_alone(services, models, looked_at), now)


def _alone(
    services: Mapping[int, OnlineService], models: Mapping[int, str], samples: Iterable[LiveGpu]
) -> Iterator[tuple[solo.Key, float]]:
    for sample in samples:
        service, model = services[sample.gpu_id], models.get(sample.gpu_id)
        step = solo.load_step(sample.online_qps, service.peak_qps)
        if sample.is_live and sample.online_p99_ms is not None and step is not None and model:
            yield (service.name, model, step), sample.online_p99_ms


# --- what is read of a pair ---------------------------------------------------------------


def _samples(pairs: Iterable[Pair], live: Live, now: datetime) -> Iterator[Sample]:
    pairs = list(pairs)
    profiles = reading.profiles_of([pair.gpu for pair in pairs], now)
    alone = solo.known()
    for pair in pairs:
        at_gpu = live.get(pair.gpu.pk)
        if at_gpu is None or not at_gpu.is_live:
            continue
        online = reading.online_use(profiles[pair.gpu.pk], at_gpu, True)
        sample = _sample(pair, online, _p99_ratio(pair, at_gpu, alone), now)
        if sample is not None:
            yield sample


def _sample(pair: Pair, online: Use, p99_ratio: float | None, now: datetime) -> Sample | None:
    """None while the node has not told of late how fast the job is, and under which limits."""
    placement, told_at = pair.placement, pair.placement.observed_at
    speed, duty = placement.observed_throughput, placement.effective_duty_percent
    share = placement.effective_sm_share_percent
    if told_at is None or (now - told_at).total_seconds() > FRESH_S:
        return None
    if speed is None or duty is None or share is None:
        return None
    read = Reading(
        throughput=speed,
        duty_percent=duty,
        sm_percent=online.sm_percent,
        util_percent=online.util_percent,
        occupancy_percent=online.occupancy_percent,
        bandwidth_percent=online.bandwidth_percent,
        memory_percent=100.0 * online.memory_bytes / pair.gpu.memory_bytes,
        p99_ratio=p99_ratio,
    )
    began_at = placement.state_since.timestamp()
    return Sample(str(placement.pk), told_at.timestamp(), share, began_at, read)


def _p99_ratio(pair: Pair, sample: LiveGpu, alone: Mapping[solo.Key, float]) -> float | None:
    step = solo.load_step(sample.online_qps, pair.service.peak_qps)
    if step is None or sample.online_p99_ms is None:
        return None
    base_ms = alone.get((pair.service.name, pair.gpu.model, step))
    return sample.online_p99_ms / base_ms if base_ms else None


# --- what is kept -------------------------------------------------------------------------


def _write(full: Sequence[tuple[Pair, windows.Window]]) -> int:
    held = _held([window for _, window in full])
    clean = [
        (pair, window)
        for pair, window in full
        if held.get(str(pair.placement.pk), 0.0) < window.began_at
    ]
    rows = [_row(pair, window) for pair, window in _rarest(clean)]
    PairObservation.objects.bulk_create(rows, ignore_conflicts=True)
    return len(rows)


def _held(full: Sequence[windows.Window]) -> dict[str, float]:
    """By placement, when it was last frozen: a status a second does not see every short one."""
    if not full:
        return {}
    since = datetime.fromtimestamp(min(window.began_at for window in full), UTC)
    frozen = NodeEvent.objects.filter(kind=EventKind.FROZEN, at__gte=since)
    told = frozen.order_by("at").values_list("placement_id", "at")
    return {str(placement): at.timestamp() for placement, at in told}


def _rarest(full: list[tuple[Pair, windows.Window]]) -> list[tuple[Pair, windows.Window]]:
    if len(full) <= MOST_WRITTEN:
        return full
    counted = PairObservation.objects.values_list("service", "family").annotate(n=Count("pk"))
    often = Counter({(service, family): n for service, family, n in counted})
    return sorted(full, key=lambda one: often[one[0].name])[:MOST_WRITTEN]


def _row(pair: Pair, window: windows.Window) -> PairObservation:
    mean, gpu, job = windows.average(window), pair.gpu, pair.placement.job
    service, family = pair.name
    return PairObservation(
        placement=pair.placement,
        at=datetime.fromtimestamp(window.began_at, UTC),
        window_s=window.last_at - window.began_at,
        simulated=gpu.is_simulated,
        gpu_model=gpu.model,
        service=service,
        job=job.name,
        family=family,
        sm_share_percent=window.share_percent,
        duty_percent=mean.duty_percent,
        online_sm_percent=mean.sm_percent,
        online_util_percent=mean.util_percent,
        online_occupancy_percent=mean.occupancy_percent,
        online_bandwidth_percent=mean.bandwidth_percent,
        online_memory_percent=mean.memory_percent,
        job_sm_percent=job.sm_percent,
        job_util_percent=job.gpu_util_percent,
        job_occupancy_percent=job.occupancy_percent,
        job_bandwidth_percent=job.memory_bandwidth_percent,
        job_memory_percent=100.0 * job.memory_bytes / gpu.memory_bytes,
        job_step_s=job.step_s,
        throughput=mean.throughput,
        p99_ratio=mean.p99_ratio,
    )


def forget() -> int:
    """Drop what is older than the newest of its pair and of all; how many rows."""
    rank = Window(
        RowNumber(),
        partition_by=[F("service"), F("family"), F("gpu_model")],
        order_by=F("at").desc(),
    )
    ranked = PairObservation.objects.annotate(rank=rank).filter(rank__gt=KEPT_OF_A_PAIR)
    old = {*ranked.values_list("pk", flat=True)[:KEPT]}
    old |= {*PairObservation.objects.order_by("-at").values_list("pk", flat=True)[KEPT : 2 * KEPT]}
    for chunk in _chunks(sorted(old), 500):
        PairObservation.objects.filter(pk__in=chunk).delete()
    return len(old)


def _chunks(ids: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    return (ids[at : at + size] for at in range(0, len(ids), size))
