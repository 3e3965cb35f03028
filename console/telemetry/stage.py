"""What is to be seen of the fleet right now, and the frames that bring a tab there. Pure (numpy).

There is one sheet for all tabs. What tabs ask for selects from it, so that those who ask for the
same from the same base are sent the same bytes, encoded once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from console.telemetry import frames, latest, tiles
from console.telemetry.frames import Body, Column, Detail, Head, Kind
from console.telemetry.latest import Bytes, Field, Flags, Layout
from console.telemetry.sheet import Sheet
from console.telemetry.view import Sight, View, view
from console.telemetry.watch import VALUES, Watch, within

_ALWAYS: Final = (Field.LOOK, Field.STATE, Field.FLAGS)


@dataclass(frozen=True)
class Shown:
    """What a browser has once it took in all that it was sent."""

    epoch: int
    detail: Detail
    watch: int
    sequence: int


class Stage:
    """The fleet of one layout, from `sequence` on."""

    def __init__(self, layout: Layout, cells: Bytes, sequence: int) -> None:
        self.layout, self.sequence = layout, sequence
        self._gpus = Sheet(cells.T, sequence)
        self._nodes: dict[int, Sheet] = {}  # by epoch of the view
        self._views: dict[Sight, View] = {}
        self._bodies: dict[object, Body] = {}
        self._at = 0.0

    def turn(self, cells: Bytes, at: float) -> None:
        """The next second: cells as `latest.cells` gives them."""
        self.sequence, self._at = self.sequence + 1, at
        self._gpus.settle(cells.T, self.sequence)
        self._bodies.clear()
        for seen in list(self._views.values()):  # a request may add one meanwhile
            if seen.epoch in self._nodes:
                self._nodes[seen.epoch].replace(self._tiles(seen), self.sequence)

    def view(self, pools: Sight) -> View:
        if pools not in self._views:
            self._views[pools] = view(self.layout, pools)
        return self._views[pools]

    def forget(self, pools: Sight) -> None:
        """Nobody looks with these eyes any more."""
        seen = self._views.pop(pools, None)
        if seen is not None:
            self._nodes.pop(seen.epoch, None)

    def frame(
        self, pools: Sight, number: int, watch: Watch, shown: Shown | None
    ) -> tuple[Kind, bytes] | None:
        """What a tab that has `shown` lacks of what it watches; None: it has all there is."""
        if watch.detail is None:
            return None
        seen = self.view(pools)
        kind, base = self._step(seen, number, watch.detail, shown)
        if kind is Kind.DELTA and base == self.sequence:
            return None
        rows = self._rows(seen, watch.detail)
        head = Head(kind, seen.epoch, self.sequence, base, self._at, number, rows, watch.detail)
        return kind, frames.frame(head, self._body(seen, watch, kind, base, rows))

    def _step(
        self, seen: View, number: int, detail: Detail, shown: Shown | None
    ) -> tuple[Kind, int]:
        if shown is None or (shown.epoch, shown.detail) != (seen.epoch, detail):
            return Kind.SNAPSHOT, 0
        return (Kind.DELTA if shown.watch == number else Kind.TURN), shown.sequence

    def _rows(self, seen: View, detail: Detail) -> int:
        return len(seen.ids) if detail is Detail.GPUS else seen.nodes.count

    def _body(self, seen: View, watch: Watch, kind: Kind, base: int, rows: int) -> Body:
        key = (seen.epoch, watch, kind, base)
        if key not in self._bodies:
            columns = self._columns(seen, watch, kind, base)
            self._bodies[key] = frames.encode(columns, rows)
        return self._bodies[key]

    def _columns(self, seen: View, watch: Watch, kind: Kind, base: int) -> Iterator[Column]:
        sheet, rows = self._sheet(seen, watch.detail)
        since = None if kind is Kind.SNAPSHOT else base
        for column in (*_ALWAYS, *range(len(Field), len(sheet.cells))):
            yield _column(sheet, column, rows, since, None)
        since = base if kind is Kind.DELTA else None
        wanted = _wanted(seen, watch)
        for field in VALUES:
            if field in watch.fields:
                yield _column(sheet, field, rows, since, wanted)
            elif watch.closer and watch.detail is Detail.GPUS:
                yield _column(sheet, field, rows, since, within(seen.ids, watch.closer))

    def _sheet(self, seen: View, detail: Detail | None) -> tuple[Sheet, latest.Rows | None]:
        """The sheet, and the rows of it that are seen."""
        if detail is Detail.GPUS:
            return self._gpus, seen.rows
        if seen.epoch not in self._nodes:
            self._nodes[seen.epoch] = Sheet(self._tiles(seen), self.sequence)
        return self._nodes[seen.epoch], None

    def _tiles(self, seen: View) -> Bytes:
        cells = self._gpus.cells
        return tiles.tiles(cells if seen.rows is None else cells[:, seen.rows], seen.nodes)


def _wanted(seen: View, watch: Watch) -> Flags | None:
    if watch.gpus is None or watch.detail is not Detail.GPUS:
        return None
    return within(seen.ids, watch.gpus) | within(seen.ids, watch.closer)


def _column(
    sheet: Sheet, number: int, rows: latest.Rows | None, since: int | None, wanted: Flags | None
) -> Column:
    """The values of a column that changed after `since` (None: all), where they are wanted."""
    values, changed_at = sheet.cells[number], sheet.changed_at[number]
    if rows is not None:
        values, changed_at = values[rows], changed_at[rows]
    if since is None and wanted is None:
        return Column(number, None, values)
    due = np.ones(len(values), np.bool_) if since is None else changed_at > since
    picked = np.flatnonzero(due if wanted is None else due & wanted)
    return Column(number, picked, values[picked])
