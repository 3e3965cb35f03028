"""Samples as they come to a web process, and the history they are written to."""

from __future__ import annotations

import numpy as np

from agents.wire import packed
from agents.wire import samples as packing
from agents.wire.messages import GpuSample, Samples, Telemetry
from agents.wire.names import SIGNALS
from console.history import kept
from console.history.rows import Rows
from console.telemetry.latest import COLUMNS

# A day begins here, some time ago.
DAY = 1_764_460_800


def recorded(start: int, seconds: int, activity: float = 70.0, gpus: int = 1) -> Samples:
    """What an agent of so many GPUs tells later of these seconds."""
    values = (None, activity, *[None] * (len(SIGNALS) - 2))
    rows = tuple(GpuSample(index, 1, values, values) for index in range(gpus))
    told = [Telemetry(number, start + number + 0.2, rows) for number in range(seconds)]
    return packing.block([packing.second(packed.pack(one)) for one in told])


def samples(gpus: list[int], start: int, seconds: int, seed: int = 1, **fixed: float) -> Rows:
    """Each GPU each second: random values, or those that are named (nan: missing)."""
    rng = np.random.default_rng(seed)
    count = len(gpus) * seconds
    values = np.full((count, len(COLUMNS)), np.nan, np.float32)
    for name in ("sm_activity", "gpu_util", "sm_online_percent"):
        values[:, COLUMNS.index(name)] = rng.uniform(1, 99, count)
    values[:, COLUMNS.index("online_p99")] = rng.uniform(5, 50, count)
    for name, value in fixed.items():
        values[:, COLUMNS.index(name)] = value
    by_receipt = np.zeros(count, np.bool_)
    last = kept.encode(kept.taken(values, np.ones(count, np.uint8), by_receipt))
    gpu = np.tile(np.array(gpus, np.int64), seconds)
    second = np.repeat(np.arange(start, start + seconds), len(gpus))
    return Rows(gpu, second, last, last[:, : kept.WORST].copy())
