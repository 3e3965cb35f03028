"""Pairs that were measured: both profiles, what the job was given, and what the two did.

As CSV: one pair a row, UTF-8, a header with exactly the names of `COLUMNS`, in any order. An empty
cell is a value that nobody measured. `docs/prediction.md` explains each column.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np

from workers.prediction.profiles import QUANTITIES, Floats, Ints, Profiles

NUMBERS: Final = ("share", "throughput", "slowdown", "p99_ratio", "weight", "at")
LABELS: Final = ("online_family", "job_family", "gpu_model")
SIDES: Final = ("online", "job")
TEXTS: Final = (
    *(f"{side}_{name}" for side in SIDES for name in ("gpu_model", "family")),
    "gpu_model",
)
COLUMNS: Final = (
    *(f"{side}_{name}" for side in SIDES for name in QUANTITIES),
    *TEXTS,
    *NUMBERS,
)


@dataclass(frozen=True)
class Observations:
    """n pairs; float64 [n] each, NaN = not measured.

    `share` is the SM share of the job, 0 to 1, `throughput` its speed over the one alone,
    `slowdown` the online side's service time over the one alone, `p99_ratio` its p99 latency
    likewise. None is clipped at 1: a little above is noise of the measurement, far above a mistake
    that should be seen. `weight` counts a pair for more or less than 1; `at` is in Unix seconds.
    A family is a kind of workload, as finely as its owner likes: hold-outs leave whole ones out.
    """

    online: Profiles
    jobs: Profiles
    online_family: tuple[str, ...]
    job_family: tuple[str, ...]
    gpu_model: tuple[str, ...]
    share: Floats
    throughput: Floats
    slowdown: Floats
    p99_ratio: Floats
    weight: Floats
    at: Floats

    def __post_init__(self) -> None:
        """Raises ValueError when the columns are not of one length."""
        lengths = {
            *(len(side) for side in (self.online, self.jobs)),
            *(len(getattr(self, name)) for name in NUMBERS),
            *(len(one) for one in (getattr(self, name) for name in LABELS)),
        }
        if len(lengths) > 1:
            raise ValueError(f"the columns have different lengths: {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.gpu_model)

    def take(self, indices: Sequence[int] | Ints) -> Observations:
        """The pairs of these positions, which may repeat."""
        at = np.asarray(indices, np.int64)
        texts = {name: tuple(getattr(self, name)[one] for one in at.tolist()) for name in LABELS}
        numbers = {name: getattr(self, name)[at] for name in NUMBERS}
        return _observations(self.online.take(at), self.jobs.take(at), texts, numbers)


def read_csv(source: Path | TextIO) -> Observations:
    """Raises ValueError that names the line and the column when the table is not as documented."""
    if isinstance(source, Path):
        with source.open(encoding="utf-8", newline="") as lines:
            return read_csv(lines)
    table = csv.DictReader(source)
    if table.fieldnames is None or sorted(table.fieldnames) != sorted(COLUMNS):
        wrong = set(table.fieldnames or ()) ^ set(COLUMNS)
        raise ValueError(f"missing, unknown or doubled columns: {', '.join(sorted(wrong))}")
    return _of(list(enumerate(table, start=2)))


def write_csv(observations: Observations, target: Path | TextIO) -> None:
    if isinstance(target, Path):
        with target.open("w", encoding="utf-8", newline="") as lines:
            return write_csv(observations, lines)
    writer = csv.DictWriter(target, COLUMNS)
    writer.writeheader()
    writer.writerows(_rows(observations))
    return None


def _of(rows: Sequence[tuple[int, Mapping[str, str | None]]]) -> Observations:
    numbers = {name: _floats(rows, name) for name in COLUMNS if name not in TEXTS}
    texts = {name: tuple(row[name] or "" for _, row in rows) for name in TEXTS}

    def side(name: str) -> Profiles:
        columns = {one: numbers[f"{name}_{one}"] for one in QUANTITIES}
        return Profiles(**columns, gpu_model=texts[f"{name}_gpu_model"])

    return _observations(side("online"), side("job"), texts, numbers)


def _observations(
    online: Profiles,
    jobs: Profiles,
    texts: Mapping[str, tuple[str, ...]],
    numbers: Mapping[str, Floats],
) -> Observations:
    columns: dict[str, Any] = {name: texts[name] for name in LABELS}
    columns |= {name: numbers[name] for name in NUMBERS}
    return Observations(online, jobs, **columns)


def _floats(rows: Sequence[tuple[int, Mapping[str, str | None]]], name: str) -> Floats:
    return np.array([_float(line, name, row[name]) for line, row in rows], np.float64)


def _float(line: int, name: str, cell: str | None) -> float:
    if cell is None:
        raise ValueError(f"line {line} ends before its {name}")
    try:
        return float(cell) if cell else float("nan")
    except ValueError:
        raise ValueError(f"line {line}: {name} is {cell!r}, which is no number") from None


def _rows(observations: Observations) -> Iterator[dict[str, str]]:
    sides = {"online": observations.online, "job": observations.jobs}
    numbers = {
        **{
            f"{key}_{name}": getattr(one, name) for key, one in sides.items() for name in QUANTITIES
        },
        **{name: getattr(observations, name) for name in NUMBERS},
    }
    texts = {
        **{f"{key}_gpu_model": one.gpu_model for key, one in sides.items()},
        **{name: getattr(observations, name) for name in TEXTS if hasattr(observations, name)},
    }
    for at in range(len(observations)):
        filled = {name: _cell(float(column[at])) for name, column in numbers.items()}
        yield filled | {name: column[at] for name, column in texts.items()}


def _cell(number: float) -> str:
    return "" if np.isnan(number) else repr(number)
