"""What a telemetry message may say. Values outside these bounds count as missing. Pure.

The bounds are wide: they catch broken drivers and hostile agents, not unusual load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from agents.wire.limits import MAX_GPUS_PER_NODE, MAX_SKEW_S
from agents.wire.messages import GpuSample
from agents.wire.names import GPU_STATES, SIGNALS, Signal
from console.telemetry.latest import COLUMNS, EXTRAS, Bytes, Floats, Rows

_PERCENT: Final = (0.0, 100.5)
_CARD_BYTES: Final = (0.0, 4e12)
_PROCESSES: Final = (0.0, 10_000.0)

BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    Signal.GPU_UTIL: _PERCENT,
    Signal.SM_ACTIVITY: _PERCENT,
    Signal.SM_OCCUPANCY: _PERCENT,
    Signal.MEMORY_BANDWIDTH: _PERCENT,
    Signal.SM_CLOCK: (0.0, 10_000.0),
    Signal.MEMORY: _CARD_BYTES,
    Signal.PCIE_RX: (0.0, 1e12),
    Signal.TEMPERATURE: (-40.0, 150.0),
    Signal.POWER: (0.0, 5_000.0),
    Signal.XID: (0.0, 1_000.0),
    Signal.ONLINE_P99: (0.0, 3.6e6),
    Signal.ONLINE_QPS: (0.0, 1e8),
    "sm_online_percent": _PERCENT,
    "sm_offline_percent": _PERCENT,
    "duty_percent": _PERCENT,
    "headroom_percent": (-1e6, 100.5),
    "nearest_signal": (0.0, len(SIGNALS) - 1.0),
    "online_processes": _PROCESSES,
    "offline_processes": _PROCESSES,
    "online_memory_bytes": _CARD_BYTES,
    "offline_memory_bytes": _CARD_BYTES,
}
_LOW: Final = np.array([BOUNDS[name][0] for name in COLUMNS])
_HIGH: Final = np.array([BOUNDS[name][1] for name in COLUMNS])


@dataclass(frozen=True)
class Sampled:
    """What remains of a message: one entry a GPU, and how much was refused for which reason."""

    rows: Rows
    state: Bytes
    values: Floats
    refused: Counter[str]


def sift(samples: Sequence[GpuSample], row_of: Mapping[int, int]) -> Sampled:
    """Keep what can be true. `row_of` maps an index on the node to its row of the grid."""
    refused: Counter[str] = Counter()
    if len(samples) > MAX_GPUS_PER_NODE:
        refused["telemetry: more GPUs than a node may have"] += 1
        samples = ()
    known = [sample for sample in samples if sample.index in row_of]
    kept = [sample for sample in known if 0 <= sample.state < len(GPU_STATES)]
    refused["telemetry: GPU not in this node's inventory"] += len(samples) - len(known)
    refused["telemetry: unknown state"] += len(known) - len(kept)

    values = np.array([_values(sample) for sample in kept], np.float64)
    values = values.reshape(len(kept), len(COLUMNS))
    wrong = (values < _LOW) | (values > _HIGH)
    values[wrong] = np.nan
    refused["telemetry: value out of bounds"] += int(wrong.sum())
    return Sampled(
        rows=np.array([row_of[sample.index] for sample in kept], np.intp),
        state=np.array([sample.state for sample in kept], np.uint8),
        values=values.astype(np.float32),
        refused=+refused,
    )


def sample_time(sent_at: float, received_at: float) -> float:
    """The agent's clock while it agrees with ours within MAX_SKEW_S, else the time of receipt."""
    return sent_at if abs(sent_at - received_at) <= MAX_SKEW_S else received_at


def _values(sample: GpuSample) -> list[float | None]:
    """A row in the order of COLUMNS; an agent of another version may know fewer or more."""
    known = [*sample.last[: len(SIGNALS)], *[None] * (len(SIGNALS) - len(sample.last))]
    return [*known, *(getattr(sample, name) for name in EXTRAS)]
