"""Read CSV files with their line numbers, and the folder of our own three."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from agents.wire.limits import MAX_GPUS_PER_NODE
from console.inventory.identity import placeholder
from console.inventory.importing.problems import Malformed, Problem, read_bytes, text_of

GIB: Final = 1 << 30

Row = dict[str, str]


def read_folder(folder: Path) -> tuple[dict[str, list[Any]], dict[str, list[int]]]:
    """Rows and lines of `nodes.csv`, and of `services.csv` and `jobs.csv` where they exist."""
    rows: dict[str, list[Any]] = {}
    lines: dict[str, list[int]] = {}
    problems: list[Problem] = []
    for section in _COLUMNS:
        path = folder / f"{section}.csv"
        table = []
        if section == "nodes" or path.exists():
            table = read_table(path, _COLUMNS[section], problems)
        made = [(line, _make(section, line, row, problems)) for line, row in table]
        rows[section] = [row for _, row in made]
        lines[section] = [line for line, _ in made]
    if problems:
        raise Malformed(problems)
    return rows, lines


def _make(section: str, line: int, row: Row, problems: list[Problem]) -> dict[str, Any]:
    try:
        return _ROWS[section](row)
    except ValueError as error:
        problems.append(Problem(f"{section}.csv", line, str(error)))
        return {}


def read_table(
    path: Path, columns: Sequence[str], problems: list[Problem]
) -> list[tuple[int, Row]]:
    """The rows of a CSV file with their line numbers; what does not fit goes to `problems`.

    Columns that end in `?` may be missing.
    """
    lines = Lines(text_of(read_bytes(path), path.name))
    reader = csv.DictReader(lines, strict=True)
    try:
        header = reader.fieldnames or []
        known = [column.rstrip("?") for column in columns]
        missing = [c for c in columns if not c.endswith("?") and c not in header]
        if missing or (extra := sorted(set(header) - set(known))):
            what = f"lacks {', '.join(missing)}" if missing else f"has unknown {', '.join(extra)}"
            problems.append(Problem(path.name, 1, f"the header {what}"))
            return []
        return list(_rows(reader, path.name, problems))
    except csv.Error as error:
        problems.append(Problem(path.name, lines.read, str(error)))
        return []


class Lines:
    """The lines of a text, and how many were read: csv does not count one that it chokes on."""

    def __init__(self, text: str) -> None:
        self.read = 0
        self._lines = iter(text.splitlines(keepends=True))

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        line = next(self._lines)
        self.read += 1
        return line


def _rows(
    reader: csv.DictReader[str], name: str, problems: list[Problem]
) -> Iterator[tuple[int, Row]]:
    for row in reader:
        if None in row or None in row.values():
            text = f"expected {len(reader.fieldnames or [])} columns"
            problems.append(Problem(name, reader.line_num, text))
        else:
            yield reader.line_num, row


def _csv_node(row: Row) -> dict[str, Any]:
    count = int(row["gpu_count"]) if row["gpu_count"].isdecimal() else -1
    if not 0 <= count <= MAX_GPUS_PER_NODE:
        raise ValueError(f"gpu_count {row['gpu_count']!r}; expected 0 to {MAX_GPUS_PER_NODE}")
    made_up = [placeholder(row["name"], index) for index in range(count)]
    uuids = row.get("uuids", "").split() or made_up
    if len(uuids) != count:
        raise ValueError(f"{len(uuids)} uuids for {count} GPUs")
    card = {"model": row["gpu_model"], "memory_bytes": _bytes(row["gpu_memory_gib"])}
    return {
        "name": row["name"],
        "pool": row["pool"],
        "gpus": [{"uuid": uuid, **card} for uuid in uuids],
        "labels": {"rack": row["rack"]} if row.get("rack") else {},
        **_host(row),
    }


def _csv_service(row: Row) -> dict[str, Any]:
    instances = [place.rpartition("/") for place in row.pop("instances").split()]
    return {
        **_with_bytes(row),
        "instances": [{"node": node, "gpu_index": index} for node, _, index in instances],
    }


def _csv_job(row: Row) -> dict[str, Any]:
    names = ("gpu_models", "pools", "command", "labels")
    lists = {name: row.pop(name, "").split() for name in names}
    host = _host(row)
    told = {key: value for key, value in _with_bytes(row).items() if value != ""}
    return {**told, **lists, **host}


def _host(row: Row) -> dict[str, Any]:
    """Cores and memory of a node, or as a job needs them; taken out of the row, as far as told."""
    cpu_cores, memory_gib = row.pop("cpu_cores", ""), row.pop("host_memory_gib", "")
    told: dict[str, Any] = {"cpu_cores": cpu_cores} if cpu_cores else {}
    return told | ({"host_memory_bytes": _bytes(memory_gib)} if memory_gib else {})


def _with_bytes(row: Row) -> dict[str, Any]:
    return {**row, "memory_bytes": _bytes(row.pop("memory_gib"))}


def _bytes(gib: str) -> int:
    try:
        return round(float(gib) * GIB)
    except (ValueError, OverflowError):
        raise ValueError(f"{gib[:40]!r} is no number of GiB") from None


_COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    "nodes": (
        "name",
        "pool",
        "gpu_count",
        "gpu_model",
        "gpu_memory_gib",
        "rack?",
        "uuids?",
        "cpu_cores?",
        "host_memory_gib?",
    ),
    "services": (
        "name",
        "team",
        "pool",
        "tier",
        "slo_p99_ms",
        "peak_qps",
        "base_p99_ms",
        "sm_percent",
        "gpu_util_percent",
        "memory_gib",
        "memory_bandwidth_percent",
        "instances",
    ),
    "jobs": (
        "name",
        "team",
        "work_s",
        "sm_percent",
        "gpu_util_percent",
        "memory_gib",
        "memory_bandwidth_percent",
        "priority?",
        "checkpoint?",
        "checkpoint_period_s?",
        "gpu_models?",
        "pools?",
        "command?",
        "image?",
        "gpus?",
        "cpu_cores?",
        "host_memory_gib?",
        "labels?",
    ),
}
_ROWS: Final[Mapping[str, Callable[[Row], dict[str, Any]]]] = {
    "nodes": _csv_node,
    "services": _csv_service,
    "jobs": _csv_job,
}
