"""A small fleet as the page of the fleet is made of it, and that page as Prometheus' own client
reads it."""

from __future__ import annotations

import gzip

from prometheus_client import parser as text_parser
from prometheus_client.openmetrics import parser as openmetrics_parser

from console.metrics.exposition import Format, render
from console.metrics.fleet import page
from console.metrics.fleet.facts import (
    FleetFacts,
    GpuRow,
    LeaseRow,
    NodeRow,
    PoolRow,
    PoolSample,
    RoundRow,
    ServiceRow,
)
from tests.console.telemetry.fleet import CARD_BYTES, NOW, grid

PARSERS = {
    Format.TEXT: text_parser.text_string_to_metric_families,
    Format.OPENMETRICS: openmetrics_parser.text_string_to_metric_families,
}


def gpu(id=11, **facts):
    given = {
        "uuid": f"GPU-{id}", "slot": id - 11, "model": "A100 SXM4", "driver": "570.1",
        "memory_bytes": CARD_BYTES, "node": "node-07", "pool": "search-eu",
    }  # fmt: skip
    return GpuRow(id, **{**given, **facts})


def node(name="node-07"):
    return NodeRow(name, "search-eu", "CONNECTED", "agent", "0.1.0", False, False, 0, NOW - 1)


def facts(*rows, at=NOW, **given):
    """GPUs 11, 12, … of one node; each of `rows` replaces single values of a busy sample."""
    live = grid(*(rows or ({},)), at=at)
    ids = live.facts.ids.tolist()
    known = {
        "gpus": [gpu(id) for id in ids],
        "nodes": [node()],
        "pools": [PoolRow("search-eu", "enforce", "standard", 3)],
        "services": [ServiceRow("search-rank", "search-eu", 1, 40.0)],
        "instances": [(id, "search-rank") for id in ids],
        "samples": [PoolSample("search-eu", 0.5, 120.0, 30.0, 4.0)],
        "evictions": {(11, "search-eu", "overload"): 2, (99, "search-eu", "move"): 1},
        "jobs": {"QUEUED": 3, "SUCCEEDED": 7},
        "rounds": [RoundRow("enforce", "DONE", 5, NOW - 20)],
        "leases": [LeaseRow("round.enforce", True, 5, NOW + 30)],
        "waiting": [("matching", 2), ("default", None)],
    }
    return FleetFacts(now=NOW + 1, grid=live, **{**known, **given})


def pages(told):
    """The page in each format, in plain."""
    packed = render(page.families(told))
    return {form: gzip.decompress(text).decode() for form, text in packed.items()}


def parsed(text, form=Format.TEXT):
    """{name: {labels: value}} of every line, and the families."""
    families = list(PARSERS[form](text))
    lines = {}
    for family in families:
        for sample in family.samples:
            told = lines.setdefault(sample.name, {})
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in told, f"twice: {sample}"
            told[labels] = sample.value
    return lines, families


def shown(told):
    return parsed(pages(told)[Format.TEXT])[0]


def value(lines, name, **labels):
    """The one line of this metric with these labels; None where there is none."""
    found = [
        value
        for given, value in lines.get(f"muxflow_{name}", {}).items()
        if labels.items() <= dict(given).items()
    ]
    assert len(found) <= 1, (name, labels, found)
    return found[0] if found else None
