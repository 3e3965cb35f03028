"""The browsers of this web process: what the live map shows them, once a second.

Runs in the hub's event loop. The grid is the hub's; the audience only reads it.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

import msgspec
import numpy as np

from console.telemetry import latest, layout, summary
from console.telemetry.frames import Kind
from console.telemetry.latest import Bytes, Grid, Layout
from console.telemetry.seat import Seat
from console.telemetry.stage import Shown, Stage
from console.telemetry.view import EVERYTHING, Sight, View
from console.telemetry.watch import Watch


class Audience:
    """`bytes_total`, `dropped_total` (seconds that a slow tab never saw) and `snapshots_total`
    count since the process began."""

    def __init__(self, grid: Grid) -> None:
        self.cells: Bytes = latest.cells(grid, 0)
        # Of the work, by whose eyes; those that were counted last come last.
        self.counts: dict[Sight, dict[str, int]] = {}
        self.bytes_total = self.dropped_total = self.snapshots_total = 0
        self._grid, self._now = grid, 0.0
        # Ends far below 2³²: it grows by one a second, and a reader never sees it wrap.
        self._stage = Stage(layout.empty(), self.cells, secrets.randbelow(1 << 30))
        self._texts: dict[Sight, str] = {}
        self._seats: set[Seat] = set()

    @property
    def tabs(self) -> int:
        return len(self._seats)

    def watch(self, grid: Grid, fresh: Layout, now: float) -> None:
        """From now on the map is of these GPUs, as this layout names them."""
        self._grid = grid
        if fresh.epoch != self._stage.layout.epoch:
            self.cells, self._now = latest.cells(grid, now), now
            self._stage = Stage(fresh, self.cells, self._stage.sequence + 1)
            self._texts.clear()

    def turn(self, now: float) -> None:
        """One second of the map: what changed, for every browser."""
        self.cells, self._now = latest.cells(self._grid, now), now
        self._stage.turn(self.cells, now)
        self._texts.clear()
        for seat in self._seats:
            self.dropped_total += not seat.offer()

    def join(self, seat: Seat) -> None:
        """The seat is offered what is known at once, and then every second."""
        self._seats.add(seat)
        seat.offer()

    def leave(self, seat: Seat) -> None:
        self._seats.discard(seat)
        if seat.pools is not EVERYTHING and all(each.pools != seat.pools for each in self._seats):
            self._stage.forget(seat.pools)
            self.counts.pop(seat.pools, None)

    def uncounted(self, most: int) -> list[Sight]:
        """Whose work is to be counted next: of all who look, those who have waited longest."""
        looking = {seat.pools for seat in self._seats}
        before = [pools for pools in self.counts if pools in looking]
        return [*(looking - self.counts.keys()), *before][:most]

    def count(self, pools: Sight, found: dict[str, int]) -> None:
        self.counts.pop(pools, None)
        if any(seat.pools == pools for seat in self._seats):
            self.counts[pools] = found

    def tell(self, event: dict[str, Any]) -> None:
        """An event for every tab, as `mf:event`."""
        text = json.dumps(event)
        for seat in self._seats:
            seat.tell(text)

    def view(self, pools: Sight) -> View:
        return self._stage.view(pools)

    def frame(
        self, pools: Sight, number: int, watch: Watch, shown: Shown | None
    ) -> tuple[Shown, bytes] | None:
        """What the tab lacks, and what it then has."""
        made = self._stage.frame(pools, number, watch, shown)
        if made is None or watch.detail is None:
            return None
        kind, data = made
        self.snapshots_total += kind is Kind.SNAPSHOT
        epoch = self._stage.view(pools).epoch
        return Shown(epoch, watch.detail, number, self._stage.sequence), data

    def summary(self, pools: Sight) -> str:
        """What `mf:summary` carries, of what is seen. Without counts of the work until there are
        any."""
        if pools not in self._texts:
            body = {"type": "summary", **self._summarise(pools)}
            self._texts[pools] = msgspec.json.encode(body).decode()
        return self._texts[pools]

    def _summarise(self, pools: Sight) -> dict[str, Any]:
        rows, counts = self._stage.view(pools).rows, self.counts.get(pools, {})
        if rows is None:
            return summary.summarise(self._grid, self.cells, counts, self._now)
        part = self._grid.part(rows)
        return summary.summarise(part, np.ascontiguousarray(self.cells[rows]), counts, self._now)
