"""Samples as they come to a web process, and the history they are written to."""

from __future__ import annotations

import numpy as np

from console.history import kept
from console.history.rows import Rows
from console.telemetry.latest import COLUMNS

# A day begins here, some time ago.
DAY = 1_764_460_800


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
