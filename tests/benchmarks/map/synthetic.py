"""A fleet that nobody measures: every second more than half of its values move. Pure (numpy)."""

from __future__ import annotations

from typing import Final

import numpy as np

from agents.wire.names import GPU_STATES, SIGNALS, GpuState, Signal
from console.telemetry.latest import COLUMN, COLUMNS, Bytes, Facts, Floats, Grid, Rows

MOVING: Final = 0.55
_STATES: Final = {
    GpuState.HEALTHY: 0.9,
    GpuState.UNHEALTHY: 0.07,
    GpuState.GUARDED: 0.01,
    GpuState.OVERLIMIT: 0.008,
    GpuState.COOLDOWN: 0.008,
    GpuState.DISABLED: 0.004,
}
# Shares of the fleet: never heard, silent now, without signals, without processes.
_UNHEARD, _SILENT, _BLIND, _IDLE = 0.01, 0.01, 0.01, 0.1
_SCALE: Final = {Signal.POWER: 4.0, Signal.SM_CLOCK: 14.0, Signal.TEMPERATURE: 0.9}


class Fleet:
    def __init__(self, facts: Facts, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._count = len(facts.ids)
        self._percent = self._rng.uniform(2, 98, (self._count, len(COLUMNS))).astype(np.float32)
        self._memory_bytes = facts.memory_bytes
        self._luck = self._rng.random(self._count)
        chances = np.array([_STATES.get(state, 0.0) for state in GPU_STATES])
        self._state = self._rng.choice(len(GPU_STATES), self._count, p=chances / chances.sum())
        self._chances = chances / chances.sum()

    def second(self, grid: Grid, now: float) -> None:
        """The samples of one second, into the grid as the gateway puts them there."""
        moving = self._rng.random(self._percent.shape) < MOVING
        steps = self._rng.normal(0, 6, self._percent.shape).astype(np.float32)
        self._percent = np.clip(self._percent + np.where(moving, steps, 0), 0.5, 99.5)
        self._change_states()
        rows = np.flatnonzero(self._luck > _UNHEARD)
        silent = (self._luck < _UNHEARD + _SILENT) & (int(now) % 60 < 40)
        rows = rows[~silent[rows]]
        values = self._values()[rows]
        grid.put(rows, now, self._states(rows), values, values[:, : len(SIGNALS)])

    def _change_states(self) -> None:
        chosen = self._rng.integers(0, self._count, max(1, self._count // 500))
        self._state[chosen] = self._rng.choice(len(GPU_STATES), len(chosen), p=self._chances)

    def _states(self, rows: Rows) -> Bytes:
        return self._state[rows].astype(np.uint8)

    def _values(self) -> Floats:
        values = self._percent.copy()
        for signal, scale in _SCALE.items():
            values[:, COLUMN[signal]] *= scale
        values[:, COLUMN[Signal.MEMORY]] *= self._memory_bytes / 100
        headroom = COLUMN["headroom_percent"]
        values[:, headroom] = 100 - (100 - values[:, headroom]) ** 2 / 100  # few are near a limit
        values[:, COLUMN["nearest_signal"]] = SIGNALS.index(Signal.MEMORY)
        processes = [COLUMN["online_processes"], COLUMN["offline_processes"]]
        values[:, processes[0]] = 1
        values[:, processes[1]] = self._luck > 0.5
        idle = self._luck > 1 - _IDLE
        values[np.ix_(idle, processes)] = 0
        blind = (self._luck > _UNHEARD + _SILENT) & (self._luck < _UNHEARD + _SILENT + _BLIND)
        values[blind, COLUMN[Signal.SM_ACTIVITY]] = np.nan
        values[blind, headroom] = np.nan
        return values
