"""What a web process counts: its agents, its browsers, its loops."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import numpy as np
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from console.metrics.process import REGISTRY, watch_database
from console.telemetry import loops
from console.telemetry.hub import Hub, hub
from console.telemetry.latest import STALE_S

PREFIX: Final = "muxflow_web_"

# By the values of the labels.
Counts: TypeAlias = Mapping[tuple[str, ...], int]


class Web(Collector):
    """Reads plain numbers of the hub, so that counting costs the busy paths nothing."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    def collect(self) -> Iterator[Metric]:
        yield from self._agents()
        yield from self._history()
        yield from self._browsers()
        yield from self._loops()

    def _agents(self) -> Iterator[Metric]:
        hub, now = self._hub, time.time()
        yield _gauge("agents", "Nodes connected to this process.", hub.links_open)
        yield _counter("samples", "Samples of GPUs taken from agents.", hub.samples_total)
        refused: Counts = {(reason,): count for reason, count in list(hub.refused.counts.items())}
        yield _counters("refused", "What was refused, by reason.", ("reason",), refused)
        at = hub.grid.at[hub.grid.local]
        yield _gauge("gpus", "GPUs whose samples come to this process.", len(at))
        words = "Of these, GPUs with a fresh sample."
        yield _gauge("gpus_fresh", words, int(np.count_nonzero(now - at <= STALE_S)))
        if len(at):
            words = "When the newest sample came, in Unix time."
            yield _gauge("newest_sample_timestamp_seconds", words, round(float(at.max()), 3))
        if hub.polled_at > 0:
            words = "Since the database last said which orders hold."
            yield _gauge("orders_age_seconds", words, time.monotonic() - hub.polled_at)

    def _history(self) -> Iterator[Metric]:
        words = "Seconds of GPUs that could not wait for Redis any longer: the history lacks them."
        yield _counter("history_dropped_samples", words, self._hub.outgoing.dropped_total)
        words = "Seconds of GPUs that agents told later and the history lacked."
        yield _counter("backfilled_samples", words, self._hub.backfills.seconds_total)

    def _browsers(self) -> Iterator[Metric]:
        audience = self._hub.audience
        yield _gauge("browsers", "Tabs that watch through this process.", audience.tabs)
        yield _counter("browser_sent_bytes", "Sent to tabs.", audience.bytes_total)
        words = "Seconds of the map that a slow tab never saw."
        yield _counter("browser_dropped_frames", words, audience.dropped_total)
        yield _counter("browser_snapshots", "Whole maps sent to tabs.", audience.snapshots_total)

    def _loops(self) -> Iterator[Metric]:
        hub = self._hub
        yield _counter("ticks", "Seconds of the live map.", hub.ticks_total)
        words = "Seconds of the live map that began more than half a second late."
        yield _counter("late_ticks", words, hub.ticks_late_total)
        failures: Counts = dict(list(loops.failures_seen.items()))
        words = "Failures of background loops, by cause."
        yield _counters("loop_failures", words, ("loop", "cause"), failures)


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(f"{PREFIX}{name}", words, value)


def _counter(name: str, words: str, value: float) -> Metric:
    return CounterMetricFamily(f"{PREFIX}{name}", words, value)


def _counters(name: str, words: str, labels: Sequence[str], counts: Counts) -> Metric:
    family = CounterMetricFamily(f"{PREFIX}{name}", words, labels=labels)
    for values, count in counts.items():
        family.add_metric(values, count)
    return family


def watch() -> None:
    """Called once, when the process starts."""
    watch_database()
    REGISTRY.register(Web(hub))
