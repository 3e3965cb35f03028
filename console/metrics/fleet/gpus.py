"""The series of each GPU. Pure (numpy)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np

from agents.wire.names import Signal
from console.metrics.exposition import Family, Kind, labels, with_label
from console.metrics.fleet.cards import Cards
from console.metrics.fleet.families import NAN
from console.telemetry.latest import Floats


class Row(NamedTuple):
    """A column of the grid as a metric: times `scale` it is in a base unit, and rounded to
    `digits` behind the point. A ratio is from 0 to 1."""

    name: str
    column: str
    scale: float
    digits: int
    help: str


PERCENT: Final = 0.01
ROWS: Final = (
    Row("sm_activity_ratio", Signal.SM_ACTIVITY, PERCENT, 3, "SMs with work, mean over time."),
    Row("utilization_ratio", Signal.GPU_UTIL, PERCENT, 3, "Time in which any kernel ran."),
    Row("sm_occupancy_ratio", Signal.SM_OCCUPANCY, PERCENT, 3, "Warps of the most possible."),
    Row("memory_bandwidth_ratio", Signal.MEMORY_BANDWIDTH, PERCENT, 3, "Of the peak bandwidth."),
    Row("sm_clock_hertz", Signal.SM_CLOCK, 1e6, 0, "SM clock."),
    Row("memory_used_bytes", Signal.MEMORY, 1.0, 0, "Memory in use, of all processes."),
    Row("memory_online_bytes", "online_memory_bytes", 1.0, 0, "Memory of online processes."),
    Row("memory_offline_bytes", "offline_memory_bytes", 1.0, 0, "Memory of offline processes."),
    Row("pcie_receive_bytes_per_second", Signal.PCIE_RX, 1.0, 0, "Received over PCIe."),
    Row("temperature_celsius", Signal.TEMPERATURE, 1.0, 1, "Temperature of the GPU."),
    Row("power_watts", Signal.POWER, 1.0, 1, "Power drawn by the board."),
    Row("headroom_ratio", "headroom_percent", PERCENT, 3, "Way left to the nearest limit."),
    Row("sm_online_ratio", "sm_online_percent", PERCENT, 3, "SM activity of online processes."),
    Row("sm_offline_ratio", "sm_offline_percent", PERCENT, 3, "SM activity of offline work."),
    Row("duty_ratio", "duty_percent", PERCENT, 3, "Time in which offline launches pass."),
    Row("online_p99_seconds", Signal.ONLINE_P99, 1e-3, 6, "99th percentile latency there."),
    Row("online_requests_per_second", Signal.ONLINE_QPS, 1.0, 2, "Requests of the service there."),
)


def families(cards: Cards) -> Iterator[Family]:
    yield _facts(cards)
    yield _up(cards)
    yield _age(cards)
    yield _state(cards)
    yield _size(cards)
    for row in ROWS:
        values = measured(cards.column(row.column), row)
        yield Family(f"muxflow_gpu_{row.name}", Kind.GAUGE, row.help, cards.labels, values)
    yield _evictions(cards)


def measured(values: Floats, row: Row) -> list[float]:
    """In base units, rounded; nan where missing."""
    scaled = np.round(values.astype(np.float64) * row.scale, row.digits)
    bounded = np.clip(scaled, 0.0, 1.0) if row.name.endswith("_ratio") else scaled
    told: list[float] = bounded.tolist()
    return told


def _facts(cards: Cards) -> Family:
    told = [
        labels(
            {
                "gpu_uuid": gpu.uuid,
                "node": gpu.node,
                "pool": gpu.pool,
                "gpu": str(gpu.slot),
                "model": gpu.model,
                "driver": gpu.driver,
                "service": service,
            }
        )
        for gpu, service in zip(cards.gpus, cards.service, strict=True)
    ]
    words = "Always 1; of several services the most important."
    return Family("muxflow_gpu_info", Kind.INFO, words, told, [1.0] * len(told))


def _up(cards: Cards) -> Family:
    words = "1 while an agent reports it, 0 while the agent that should is silent."
    up: list[float] = np.where(cards.expected, cards.fresh, np.nan).tolist()
    return Family("muxflow_gpu_up", Kind.GAUGE, words, cards.labels, up)


def _age(cards: Cards) -> Family:
    words = "Age of its last sample when this page was made."
    seen = cards.expected & (cards.at > 0)
    age = np.where(seen, np.maximum(0.0, cards.facts.now - cards.at), np.nan)
    return Family(
        "muxflow_gpu_sample_age_seconds", Kind.GAUGE, words, cards.labels, np.round(age, 1).tolist()
    )


def _state(cards: Cards) -> Family:
    """One line a GPU: all seven would be a quarter of the page."""
    told = [
        with_label(given, "state", state)
        for given, state in zip(cards.labels, cards.states, strict=True)
        if state is not None
    ]
    words = "1 for the state that a GPU is in; its other states have no line."
    return Family("muxflow_gpu_state", Kind.GAUGE, words, told, [1.0] * len(told))


def _size(cards: Cards) -> Family:
    sizes = [float(gpu.memory_bytes) or NAN for gpu in cards.gpus]
    words = "Memory of the card."
    return Family("muxflow_gpu_memory_size_bytes", Kind.GAUGE, words, cards.labels, sizes)


def _evictions(cards: Cards) -> Family:
    """From 0 on: a counter that begins with its first event hides that event."""
    counts = dict.fromkeys([gpu.id for gpu in cards.gpus], 0.0)
    for (gpu_id, _, _), count in cards.facts.evictions.items():
        if gpu_id in counts:
            counts[gpu_id] += count
    words = "Offline jobs taken off it, completed."
    return Family(
        "muxflow_gpu_evictions_total", Kind.COUNTER, words, cards.labels, [*counts.values()]
    )
