"""The series of each online service: what harm is proven by. Pure (numpy)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.wire.names import Signal
from console.metrics.exposition import Family
from console.metrics.fleet.cards import BESIDE, Cards
from console.metrics.fleet.families import gauge, info
from console.telemetry.latest import Rows

NOBODY: Rows = np.empty(0, np.intp)


def families(cards: Cards) -> Iterator[Family]:
    named = [({"service": one.name, "pool": one.pool}, one) for one in cards.facts.services]
    yield info("service_info", "Always 1.", [p | {"tier": str(one.tier)} for p, one in named])
    instances = Counter(service for _, service in cards.facts.instances)
    words = "Instances of the service."
    yield gauge("service_instances", words, [(p, instances[one.name]) for p, one in named])
    words = "The 99th percentile latency that is promised."
    slo = [(p, one.slo_p99_ms / 1e3 if one.slo_p99_ms else None) for p, one in named]
    yield gauge("service_slo_p99_seconds", words, slo)
    yield from _measured(cards)


def _measured(cards: Cards) -> Iterator[Family]:
    p99_s = cards.column(Signal.ONLINE_P99).astype(np.float64) / 1e3
    qps = cards.column(Signal.ONLINE_QPS).astype(np.float64)
    groups = [
        (
            {"service": one.name, "pool": one.pool, "beside": beside},
            cards.of_service.get((one.name, beside), NOBODY),
        )
        for one in cards.facts.services
        for beside in BESIDE
    ]
    words = "Instances that report, on GPUs beside offline work or beside nothing."
    yield gauge("service_instances_up", words, [(pairs, len(rows)) for pairs, rows in groups])
    words = "99th percentile latency of the worst instance."
    worst = [(pairs, _of_known(p99_s[rows], np.max)) for pairs, rows in groups]
    yield gauge("service_p99_worst_seconds", words, worst)
    words = "Median of the 99th percentile latencies of the instances."
    middle = [(pairs, _of_known(p99_s[rows], np.median)) for pairs, rows in groups]
    yield gauge("service_p99_median_seconds", words, middle)
    words = "Requests to the instances."
    requests = [(pairs, _of_known(qps[rows], np.sum)) for pairs, rows in groups]
    yield gauge("service_requests_per_second", words, requests)


def _of_known(values: npt.NDArray[np.float64], of: Callable[[Any], Any]) -> float | None:
    known = values[~np.isnan(values)]
    return round(float(of(known)), 6) if len(known) else None
