"""Load curves out of a file: what the services of a simulated fleet have to do, by the clock. Pure.

CSV: a line of names, then one row a bin of `BIN_S`; the first column numbers the bins, each other
one is the load of a service in any unit, and counts as a part of its own greatest value. An empty
cell is a gap: nobody measured. After its last bin a file begins anew.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Flags: TypeAlias = NDArray[np.bool_]

BIN_S: Final = 300.0
MOST_BINS: Final = 100_000
_NOTHING: Final = {"", "nan", "null", "none"}


@dataclass(frozen=True, slots=True)
class Curves:
    """[bins, columns]: parts of each column's greatest value, held over gaps, and the gaps."""

    parts: Floats
    gaps: Flags

    def of(self, services: int, world_s: float) -> tuple[Floats, Flags]:
        """The load of each service, and whether it is a gap: columns go round among services."""
        at = int(world_s // BIN_S) % len(self.parts)
        columns = np.arange(services) % self.parts.shape[1]
        return self.parts[at, columns], self.gaps[at, columns]


def read(text: str) -> Curves:
    """Raises ValueError, with the line and the way out."""
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    if len(lines) < 2 or len(lines[0]) < 2:
        raise ValueError("a load file has a line of names, rows, and two columns at least")
    if len(lines) > MOST_BINS:
        raise ValueError(f"more than {MOST_BINS} rows: thin it out")
    width = len(lines[0])
    loads = np.array([_row(number, line, width) for number, line in enumerate(lines[1:], 2)])
    gaps = np.isnan(loads)
    greatest = np.where(gaps, 0.0, loads).max(axis=0)
    parts = _held(loads / np.where(greatest > 0.0, greatest, 1.0))
    return Curves(parts.astype(np.float32), gaps)


def _row(number: int, line: list[str], width: int) -> list[float]:
    if len(line) != width:
        raise ValueError(f"line {number} has {len(line)} cells, the first line {width}")
    return [_cell(number, cell) for cell in line[1:]]


def _cell(number: int, cell: str) -> float:
    if cell.strip().lower() in _NOTHING:
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < math.inf:
        raise ValueError(f"line {number}: {cell!r} is no load; leave a cell empty for a gap")
    return value


def _held(parts: NDArray[np.float64]) -> NDArray[np.float64]:
    """A service goes on unmeasured: as before the gap, or, at the start, as after it. One that
    nobody ever measured has no load."""
    held = parts.copy()
    for column in held.T:
        known = np.flatnonzero(~np.isnan(column))
        if not len(known):
            column[:] = 0.0
            continue
        before = np.searchsorted(known, np.arange(len(column)), side="right") - 1
        column[:] = column[known[np.maximum(before, 0)]]
    return held
