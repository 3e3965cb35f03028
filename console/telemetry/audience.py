"""The browsers of this web process: what the live map shows them, once a second.

Runs in the hub's event loop. The grid is the hub's; the audience only reads it.
"""

from __future__ import annotations

import json
import secrets
import time
from typing import Any

import msgspec

from console.telemetry import frames, latest, summary
from console.telemetry.latest import Bytes, Grid
from console.telemetry.seat import Seat, Tick


class Audience:
    def __init__(self, grid: Grid) -> None:
        self.cells: Bytes = latest.cells(grid, 0)
        self.counts: dict[str, int] = {}
        self._grid, self._epoch = grid, 0
        self._sequence = secrets.randbelow(1 << 30)
        self._tick: Tick | None = None
        self._seats: set[Seat] = set()

    @property
    def tabs(self) -> int:
        return len(self._seats)

    def watch(self, grid: Grid, epoch: int, now: float) -> None:
        """From now on the map is of these GPUs, which the layout of this epoch names."""
        if grid is not self._grid:
            self.cells = latest.cells(grid, now)
        self._grid, self._epoch = grid, epoch

    def turn(self, now: float) -> None:
        """One second of the map: what changed, for every browser."""
        before, self.cells = self.cells, latest.cells(self._grid, now)
        if self._seats:
            self._tick = self._next_tick(before, now)
            text = self._summary_text(now)
            for seat in self._seats:
                seat.offer(self._tick, text)

    def _next_tick(self, before: Bytes, now: float) -> Tick:
        self._sequence = (self._sequence + 1) % (1 << 32)
        ids = self._grid.facts.ids
        rows = latest.changed(before, self.cells)
        delta = frames.delta(ids, self.cells, rows, self._epoch, self._sequence, now)
        return Tick(self._epoch, self._sequence, now, ids, self.cells, delta)

    def _summary_text(self, now: float) -> str:
        body = summary.summarise(self._grid, self.cells, self.counts, now)
        return msgspec.json.encode({"type": "summary", **body}).decode()

    def join(self, seat: Seat) -> None:
        """The seat is offered what is known at once, and then every second."""
        now = time.time()
        if not self._seats:  # nobody watched: the last tick is old
            self._tick = self._next_tick(self.cells, now)
        self._seats.add(seat)
        if self._tick is not None:
            seat.offer(self._tick, self._summary_text(now))

    def leave(self, seat: Seat) -> None:
        self._seats.discard(seat)

    def tell(self, event: dict[str, Any]) -> None:
        """An event for every tab, as `mf:event`."""
        text = json.dumps(event)
        for seat in self._seats:
            seat.tell(text)
