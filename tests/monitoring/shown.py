"""What our processes show: each metric with its labels, out of their own registries."""

from __future__ import annotations

from collections import defaultdict

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from agents.metrics.exposition import text as agent_text
from agents.metrics.families import Process, Told, families
from agents.status import view
from agents.status.snapshot import SourceView
from agents.wire.names import Signal
from console.metrics.exposition import Format
from console.metrics.process import REGISTRY
from console.metrics.web import Web
from console.telemetry import loops
from console.telemetry.hub import Hub
from tests.agents.cast import Stage
from tests.console.metrics.cast import facts, pages
from tests.console.telemetry.fleet import NOW, grid
from tests.monitoring.expressions import SCRAPED, Labels
from workers import counting

ALL_SIGNALS = {signal.value: 1.0 for signal in Signal}
EXTRAS = dict.fromkeys(("online_memory_bytes", "offline_memory_bytes", "sm_online_percent"), 1.0)


def metrics(folder, monkeypatch) -> dict[str, Labels]:
    """By name; of all kinds of processes together, and with what Prometheus adds."""
    shown = defaultdict[str, Labels](frozenset)
    for text in (_fleet(), _web(monkeypatch), _worker(), _agent(folder)):
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                shown[sample.name] |= SCRAPED | frozenset(sample.labels)
    return {"up": SCRAPED, **shown}


def _fleet() -> str:
    alone = {"offline_processes": 0.0}
    return pages(facts(ALL_SIGNALS | EXTRAS, ALL_SIGNALS | EXTRAS | alone))[Format.TEXT]


def _web(monkeypatch) -> str:
    """A process that has heard a node, refused a value and failed once."""
    monkeypatch.setattr(loops, "failures_seen", {("bells", "redis"): 1})
    hub = Hub()
    hub.grid, hub.links.polled_at = grid({}), 1.0
    hub.refused.add("a reason", "made up")
    registry = CollectorRegistry()
    registry.register(Web(hub))
    return generate_latest(registry).decode()


def _worker() -> str:
    for histogram in (counting.duration_s, counting.wait_s):
        histogram.labels("made.up").observe(1)
    for counter in (counting.held, counting.too_late, counting.rung):
        counter.labels("made.up").inc()
    counting.failed.labels("made.up", "other").inc()
    return generate_latest(REGISTRY).decode()


def _agent(folder) -> str:
    """A node that has frozen a job, evicted it and lost events."""
    stage = Stage(folder)
    stage.start()
    stage.sensors.values[Signal.SM_ACTIVITY] = 97.0
    stage.run(6)
    inside = stage.node.inside()
    node = view.node(inside, None, stage.now, NOW)
    node = msgspec.structs.replace(node, sources=(SourceView("nvml", True, 0.1, 0.1, ""),))
    told = Told(node, inside.spool.tally)
    text = agent_text(families([told], Process(0.0, 1.0, 1, 1), "0.1.0"))
    stage.die()
    return text
