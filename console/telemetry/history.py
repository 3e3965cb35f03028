"""The last ten minutes of every GPU, for its charts. Pure (numpy).

A ring of half floats (11 bits, finer than any screen). One second a slot while the fleet fits the
budget, else the smallest whole number of seconds that does. A gap stays a gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from agents.wire.names import Signal
from console.telemetry.latest import STALE_S, Grid, Ids, memory_percent, no_facts, share

SPAN_S: Final = 600
BUDGET_BYTES: Final = 64 << 20
# What is kept. Memory is kept as percent of the card, so that it fits a half float.
SERIES: Final = (
    Signal.ONLINE_P99.value,
    Signal.ONLINE_QPS.value,
    Signal.SM_ACTIVITY.value,
    "sm_online_percent",
    "sm_offline_percent",
    Signal.GPU_UTIL.value,
    "memory_percent",
    "offline_memory_percent",
    "duty_percent",
    "headroom_percent",
    Signal.TEMPERATURE.value,
    Signal.POWER.value,
)
_MOST: Final = np.finfo(np.float16).max


@dataclass(frozen=True)
class Series:
    """Columns of equal length, ascending in time (Unix s), None for a gap."""

    period_s: int
    times: list[float]
    values: dict[str, list[float | None]]


class History:
    def __init__(self, ids: Ids | None = None) -> None:
        self.ids = no_facts().ids if ids is None else ids
        per_slot = len(self.ids) * len(SERIES) * np.dtype(np.float16).itemsize
        self.period_s = max(1, -(-SPAN_S * per_slot // BUDGET_BYTES))
        slots = SPAN_S // self.period_s
        self._times = np.zeros(slots)
        self._values = np.full((slots, len(self.ids), len(SERIES)), np.nan, np.float16)
        self._slot = -1

    def record(self, grid: Grid, now: float) -> None:
        """One sample of all GPUs, at most one a period; the grid must hold the same GPUs."""
        if now - self._times[self._slot] < self.period_s * 0.9:
            return
        self._slot = (self._slot + 1) % len(self._times)
        self._times[self._slot] = now
        self._values[self._slot] = _row(grid, now)

    def adopt(self, ids: Ids) -> History:
        """The same past for another set of GPUs; empty when it no longer fits one period."""
        fresh = History(ids)
        if fresh.period_s != self.period_s:
            return fresh
        common, mine, theirs = np.intersect1d(self.ids, ids, return_indices=True)
        fresh._times, fresh._slot = self._times, self._slot
        if len(common):
            fresh._values[:, theirs] = self._values[:, mine]
        return fresh

    def series(self, gpu_id: int) -> Series:
        """What is known of one GPU; no times at all when it is not in this fleet."""
        at = np.flatnonzero(self.ids == gpu_id)
        order = np.argsort(self._times)
        order = order[self._times[order] > 0] if len(at) else order[:0]
        block = self._values[order, at[0]] if len(at) else np.empty((0, len(SERIES)), np.float16)
        values = {name: _column(block[:, index]) for index, name in enumerate(SERIES)}
        return Series(self.period_s, self._times[order].round(3).tolist(), values)


def _row(grid: Grid, now: float) -> npt.NDArray[np.float16]:
    derived = {
        "memory_percent": memory_percent(grid),
        "offline_memory_percent": share(
            grid.column("offline_memory_bytes"), grid.facts.memory_bytes
        ),
    }
    columns = [derived[name] if name in derived else grid.column(name) for name in SERIES]
    row = np.clip(np.stack(columns, axis=1), -_MOST, _MOST)
    row[now - grid.at > STALE_S] = np.nan
    return row.astype(np.float16)


def _column(values: npt.NDArray[np.float16]) -> list[float | None]:
    rounded = values.astype(np.float64).round(2).tolist()
    return [None if value != value else value for value in rounded]
