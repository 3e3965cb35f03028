"""Observations as CSV, out and in: one pair a row, the columns of docs/prediction.md.

What comes in is a stranger's file: every value is bounded, and the first that does not fit is named
with its line and column. A file is taken whole or not at all.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from console.errors import Invalid
from console.predictor.models import SIMULATED, PairObservation

MOST_CHARS: Final = 8 << 20
MOST_ROWS: Final = 20_000
# A little above the whole is noise of a measurement, far above it a mistake. Our choices.
MOST_PART: Final = 1.05
MOST_RATIO: Final = 100.0
MOST_STEP_S: Final = 86_400.0
MOST_SPEED: Final = 4.0
LATEST_S: Final = 4_102_444_800.0  # the year 2100

Value = float | str | None


@dataclass(frozen=True)
class Column:
    """A column of numbers: how it is told of a row, and what it may be. `field` "": not kept."""

    field: str
    factor: float
    least: float
    most: float
    needed: bool = False


def _part(field: str, needed: bool = False) -> Column:
    """A fraction of the card, kept in percent."""
    return Column(field, 100.0, 0.0, MOST_PART, needed)


NUMBERS: Final[Mapping[str, Column]] = {
    "online_sm": _part("online_sm_percent", needed=True),
    "online_util": _part("online_util_percent", needed=True),
    "online_occupancy": _part("online_occupancy_percent"),
    "online_bandwidth": _part("online_bandwidth_percent"),
    "online_memory": _part("online_memory_percent", needed=True),
    "online_step_s": Column("", 1.0, 0.0, MOST_STEP_S),
    "job_sm": _part("job_sm_percent", needed=True),
    "job_util": _part("job_util_percent", needed=True),
    "job_occupancy": _part("job_occupancy_percent"),
    "job_bandwidth": _part("job_bandwidth_percent"),
    "job_memory": _part("job_memory_percent", needed=True),
    "job_step_s": Column("job_step_s", 1.0, 0.0, MOST_STEP_S),
    "share": Column("sm_share_percent", 100.0, 0.0, 1.0, needed=True),
    "throughput": Column("throughput", 1.0, 0.0, MOST_SPEED, needed=True),
    "slowdown": Column("slowdown", 1.0, 0.0, MOST_RATIO),
    "p99_ratio": Column("p99_ratio", 1.0, 0.0, MOST_RATIO),
    "weight": Column("", 1.0, 0.0, MOST_RATIO),
    "at": Column("", 1.0, 0.0, LATEST_S),
}
# Longest text of each.
TEXTS: Final[Mapping[str, int]] = {
    "online_gpu_model": 80 + len(SIMULATED),
    "online_family": 128,
    "job_gpu_model": 80 + len(SIMULATED),
    "job_family": 128,
    "gpu_model": 80 + len(SIMULATED),
}
COLUMNS: Final = (*NUMBERS, *TEXTS)


def text(rows: Iterable[PairObservation]) -> str:
    """With the header, whatever there is of rows."""
    target = io.StringIO()
    writer = csv.DictWriter(target, COLUMNS)
    writer.writeheader()
    writer.writerows(_told(row) for row in rows)
    return target.getvalue()


def _told(row: PairObservation) -> dict[str, Value]:
    numbers = {name: _number(row, column) for name, column in NUMBERS.items() if column.field}
    facts = {"weight": 1.0, "at": row.at.timestamp(), "online_step_s": None}
    cards = dict.fromkeys(("gpu_model", "online_gpu_model", "job_gpu_model"), row.card)
    families = {"online_family": row.service, "job_family": row.family}
    return {**numbers, **facts, **cards, **families}


def _number(row: PairObservation, column: Column) -> float | None:
    value: float | None = getattr(row, column.field)
    return None if value is None else value / column.factor


def read(text: str, now: datetime) -> list[PairObservation]:
    """Rows that are not saved yet. Raises Invalid that names the line and the column."""
    if not 0 < len(text) <= MOST_CHARS:
        raise Invalid(f"Send a CSV file of up to {MOST_CHARS >> 20} MiB.")
    try:
        return list(_rows(text, now))
    except csv.Error as error:
        raise Invalid(f"This is no CSV file: {error}.") from error


def _rows(text: str, now: datetime) -> Iterator[PairObservation]:
    table = csv.DictReader(io.StringIO(text), strict=True)
    if sorted(table.fieldnames or ()) != sorted(COLUMNS):
        wrong = sorted(set(table.fieldnames or ()) ^ set(COLUMNS))
        named = ", ".join(name[:40] for name in wrong[:6]) or "one of them twice"
        raise Invalid(f"The header does not have the documented columns; they differ in {named}.")
    for row in table:
        if table.line_num - 1 > MOST_ROWS:
            raise Invalid(f"This file has more than {MOST_ROWS:,} rows: send it in parts.")
        yield _row(_Line(table.line_num, row), now)


@dataclass(frozen=True)
class _Line:
    """One line of the file, and the error that names it."""

    number: int
    cells: Mapping[str, str | None]

    def wrong(self, name: str, why: str) -> Invalid:
        return Invalid(f"Line {self.number}: {name} {why}. Nothing was imported.")

    def number_of(self, name: str) -> float | None:
        column, cell = NUMBERS[name], self._cell(name)
        if not cell:
            if column.needed:
                raise self.wrong(name, "is missing")
            return None
        try:
            value = float(cell)
        except ValueError:
            raise self.wrong(name, f"is {cell[:20]!r}, which is no number") from None
        if not (math.isfinite(value) and column.least <= value <= column.most):
            raise self.wrong(name, f"is {cell[:20]}, not from {column.least:g} to {column.most:g}")
        return value

    def text_of(self, name: str) -> str:
        cell = self._cell(name)
        if not cell.isprintable() or len(cell) > TEXTS[name]:
            raise self.wrong(name, f"is no text of up to {TEXTS[name]} printable characters")
        return cell

    def _cell(self, name: str) -> str:
        cell = self.cells.get(name)
        if cell is None or None in self.cells:
            raise self.wrong(name, "is not there: the line has too few or too many cells")
        return cell.strip()


def _row(line: _Line, now: datetime) -> PairObservation:
    numbers = {name: line.number_of(name) for name in NUMBERS}
    texts = {name: line.text_of(name) for name in TEXTS}
    if not (texts["gpu_model"] and texts["online_family"] and texts["job_family"]):
        raise line.wrong("gpu_model, online_family or job_family", "is missing")
    fields: dict[str, Any] = {
        column.field: value if value is None else value * column.factor
        for name, column in NUMBERS.items()
        if column.field
        for value in (numbers[name],)
    }
    at = numbers["at"]
    return PairObservation(
        at=now if at is None else datetime.fromtimestamp(at, UTC),
        window_s=0.0,
        simulated=texts["gpu_model"].startswith(SIMULATED),
        gpu_model=texts["gpu_model"].removeprefix(SIMULATED),
        service=texts["online_family"],
        job=texts["job_family"],
        family=texts["job_family"],
        **fields,
    )
