"""Small fleets for these tests: facts, grids and samples out of a few words."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.wire.messages import GpuSample
from agents.wire.names import GPU_STATES, SIGNALS, GpuState
from console.telemetry.latest import COLUMN, COLUMNS, Facts, Grid

GIB = 1 << 30
CARD_BYTES = 80 * GIB
NOW = 1_800_000_000.0


def facts(count: int = 3, first_id: int = 11, **columns: Any) -> Facts:
    """GPUs with ids 11, 12, …; `columns` replaces single facts."""
    given = {
        "ids": np.arange(first_id, first_id + count, dtype=np.uint32),
        "memory_bytes": np.full(count, CARD_BYTES, np.float32),
        "power_limit_w": np.full(count, 400, np.float32),
        "slo_p99_ms": np.full(count, 40, np.float32),
        "pool": np.ones(count, np.int64),
        "service": np.zeros(count, np.int32),
        "agent": np.ones(count, np.bool_),
        "lost": np.zeros(count, np.bool_),
        "enforce": np.zeros(count, np.bool_),
        "by_person": np.zeros(count, np.bool_),
    }
    return Facts(**{**given, **columns})


def row(**values: float | None) -> np.ndarray:
    """One row of a grid; what is not named is missing."""
    out = np.full(len(COLUMNS), np.nan, np.float32)
    for name, value in values.items():
        out[COLUMN[name]] = np.nan if value is None else value
    return out


BUSY = {
    "sm_activity": 52.0,
    "gpu_util": 90.0,
    "memory": 40.0 * GIB,
    "temperature": 64.0,
    "power": 300.0,
    "online_p99": 30.0,
    "headroom_percent": 25.0,
    "sm_offline_percent": 20.0,
    "duty_percent": 100.0,
    "online_processes": 1.0,
    "offline_processes": 1.0,
}


def grid(*rows: dict[str, float | None], at: float = NOW, **columns: Any) -> Grid:
    """One GPU a row, each as BUSY with these changes, sampled at `at` and HEALTHY."""
    made = Grid(facts(len(rows), **columns))
    for index, values in enumerate(rows):
        told = row(**{**BUSY, **values})[None, :]
        made.put(
            np.array([index]),
            at,
            np.array([GPU_STATES.index(GpuState.HEALTHY)], np.uint8),
            told,
            told[:, : len(SIGNALS)],
        )
    return made


def sample(index: int = 0, state: GpuState = GpuState.HEALTHY, **values: float | None) -> GpuSample:
    """What an agent sends of one GPU, as BUSY with these changes."""
    known = {**BUSY, **values}
    signals = tuple(known.get(signal.value) for signal in SIGNALS)
    extras: dict[str, Any] = {name: known[name] for name in known if name not in set(SIGNALS)}
    counts = {"online_processes", "offline_processes", "nearest_signal"}
    whole: dict[str, Any] = {
        k: int(v) if k in counts and v is not None else v for k, v in extras.items()
    }
    return GpuSample(index, GPU_STATES.index(state), signals, signals, **whole)
