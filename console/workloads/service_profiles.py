"""What services use on each GPU model, from the samples of their instances."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from console.telemetry.latest import STALE_S, LiveGpu
from console.workloads import digest
from console.workloads.models import OnlineInstance, ServiceProfile
from console.workloads.queries import guests_on

# A service is taken to need what it uses at its busiest, but for a twentieth of its time; of memory
# all that it ever held.
PEAK: Final = 0.95
# Fewer say little of a service. Our choice.
ENOUGH_SAMPLES: Final = 300
TOO_OLD: Final = timedelta(days=7)
# Of a service on one GPU model, so many instances are looked at in one turn.
MOST: Final = 64
# Told by side, so they hold beside a guest too; the others tell of the whole GPU.
_OWN: Final = {"sm_percent": "sm_online_percent", "memory_bytes": "online_memory_bytes"}
_OWN_LOAD: Final = {"qps": "online_qps"}
_ALONE: Final = {
    "gpu_util_percent": "gpu_util_percent",
    "memory_bandwidth_percent": "memory_bandwidth_percent",
    "occupancy_percent": "sm_occupancy_percent",
    "p99_ms": "online_p99_ms",
}
# What a profile is nothing without.
_NEEDED: Final = ("sm_percent", "gpu_util_percent", "memory_bytes")

Key = tuple[int, str]


def measured(service_ids: Collection[int], now: datetime) -> dict[Key, ServiceProfile]:
    """By service and GPU model, the profiles that rest on enough samples and are not too old."""
    rows = ServiceProfile.objects.filter(
        service__in=service_ids, samples__gte=ENOUGH_SAMPLES, measured_at__gte=now - TOO_OLD
    )
    return {(row.service_id, row.gpu_model): row for row in rows.defer("counts")}


def watch(live: Mapping[int, LiveGpu], now: datetime) -> int:
    """Take the present samples into the profiles; how many profiles changed. Four queries."""
    seen = _seen(live, now)
    known = {
        (row.service_id, row.gpu_model): row
        for row in ServiceProfile.objects.filter(service__in={key[0] for key in seen})
    }
    rows = [
        row
        for key, samples in seen.items()
        if (row := _grown(known.get(key) or _new(key, now), samples, now)) is not None
    ]
    ServiceProfile.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["service", "gpu_model"],
        update_fields=[*_COLUMNS, "measured_at", "samples", "counts"],
    )
    return len(rows)


_COLUMNS: Final = (*_OWN, *_OWN_LOAD, *_ALONE)

# A sample, and whether its GPU has no guest.
Sample = tuple[LiveGpu, bool]


def _seen(live: Mapping[int, LiveGpu], now: datetime) -> dict[Key, list[Sample]]:
    """The fresh samples of GPUs that one instance has to itself, by service and GPU model."""
    places: dict[int, list[Key]] = defaultdict(list)
    instances = OnlineInstance.objects.filter(gpu__retired_at=None, gpu__in=live)
    for gpu_id, service_id, model in instances.values_list("gpu", "service", "gpu__model"):
        places[gpu_id].append((service_id, model))
    fresh = [pk for pk, keys in places.items() if len(keys) == 1 and live[pk].age_s <= STALE_S]
    guests = guests_on(fresh)
    found: dict[Key, list[Sample]] = defaultdict(list)
    for pk in fresh:
        found[places[pk][0]].append((live[pk], pk not in guests))
    chance = random.Random(int(now.timestamp()))  # which, is no secret
    return {key: chance.sample(few, min(MOST, len(few))) for key, few in found.items()}


def _new(key: Key, now: datetime) -> ServiceProfile:
    service_id, gpu_model = key
    return ServiceProfile(service_id=service_id, gpu_model=gpu_model, since=now, measured_at=now)


def _grown(row: ServiceProfile, samples: Sequence[Sample], now: datetime) -> ServiceProfile | None:
    """The profile with these samples; None while it lacks a figure that it is nothing without."""
    counts = digest.faded(row.counts, now - row.measured_at)
    for column, name in (_OWN | _OWN_LOAD).items():
        digest.add(counts, column, _values(name, (live for live, _ in samples)))
    for column, name in _ALONE.items():
        digest.add(counts, column, _values(name, (live for live, alone in samples if alone)))
    facts: dict[str, Any] = {name: digest.quantile(counts, name, PEAK) for name in _COLUMNS}
    facts["memory_bytes"] = digest.quantile(counts, "memory_bytes", 1.0)
    if any(facts[name] is None for name in _NEEDED):
        return None
    facts["memory_bytes"] = int(facts["memory_bytes"])
    facts["memory_bandwidth_percent"] = facts["memory_bandwidth_percent"] or 0.0
    for name, value in facts.items():
        setattr(row, name, min(100.0, value) if value and name.endswith("percent") else value)
    row.counts, row.measured_at, row.samples = counts, now, row.samples + len(samples)
    return row


def _values(name: str, samples: Iterable[LiveGpu]) -> list[float | None]:
    return [getattr(sample, name) for sample in samples]
