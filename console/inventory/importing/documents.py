"""Read a cluster from JSON, YAML or a folder of CSV files: all of it, or every line that is wrong.

The formats are described in docs/import.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import yaml

from agents.wire.cluster import Cluster, ClusterJob, ClusterNode, ClusterService
from console.inventory.importing import tables
from console.inventory.importing.checks import Finding, check
from console.inventory.importing.problems import Malformed, Problem, read_bytes, text_of

_SECTIONS: Final[Mapping[str, Any]] = {
    "nodes": ClusterNode,
    "services": ClusterService,
    "jobs": ClusterJob,
}


def read(path: Path) -> Cluster:
    """The cluster of a file or a CSV folder. Raises Malformed, or Invalid when unreadable."""
    if path.is_dir():
        rows, lines = tables.read_folder(path)
        places = Places(lambda section: f"{section}.csv", lambda: lines)
        return _build(path.name, rows, places)
    return read_document(read_bytes(path), path.name)


def read_document(data: bytes, name: str) -> Cluster:
    """The cluster of one JSON or YAML document."""
    document = _parse(data, name)
    rows = {section: document.get(section) or [] for section in _SECTIONS}
    unknown = sorted(str(key) for key in set(document) - {"name", *_SECTIONS})
    if unknown:
        raise Malformed([Problem(name, None, f"unknown parts: {', '.join(unknown)}")])
    if not all(isinstance(section, list) for section in rows.values()):
        raise Malformed([Problem(name, None, "nodes, services and jobs must be lists")])
    places = Places(lambda section: name, lambda: _lines_of_rows(data))
    return _build(str(document.get("name") or name), rows, places)


def _parse(data: bytes, name: str) -> dict[str, Any]:
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        document = _parse_yaml(text_of(data, name), name)
    if not isinstance(document, dict):
        raise Malformed([Problem(name, 1, "expected a mapping with nodes, services and jobs")])
    return document


def _parse_yaml(text: str, name: str) -> Any:
    try:
        # An alias can make a small file enormous.
        aliases = (e for e in yaml.parse(text, yaml.CSafeLoader) if isinstance(e, yaml.AliasEvent))
        if (alias := next(aliases, None)) is not None:
            line = alias.start_mark.line + 1 if alias.start_mark else None
            raise Malformed([Problem(name, line, "aliases (*name) are not read; write it out")])
        return yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        text = getattr(error, "problem", None) or "neither JSON nor YAML"
        raise Malformed([Problem(name, mark.line + 1 if mark else None, text)]) from error
    except (RecursionError, ValueError) as error:
        raise Malformed([Problem(name, None, f"neither JSON nor YAML: {error}")]) from error


@dataclass(frozen=True)
class Places:
    """Where each row stands. Lines are looked up only when something is wrong."""

    file: Callable[[str], str]
    lines: Callable[[], Mapping[str, Sequence[int]]]

    def problems(self, found: Sequence[Finding]) -> list[Problem]:
        lines = self.lines()
        return [
            Problem(self.file(section), _at(lines.get(section, ()), index), text)
            for section, index, text in found
        ]


def _at(lines: Sequence[int], index: int) -> int | None:
    return lines[index] if index < len(lines) else None


def _lines_of_rows(data: bytes) -> dict[str, list[int]]:
    """JSON is read as the YAML that it nearly is; where it is not, lines stay unknown."""
    try:
        root = yaml.compose(data, yaml.CSafeLoader)
    except (yaml.YAMLError, RecursionError):
        return {}
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    return {
        key.value: [row.start_mark.line + 1 for row in value.value]
        for key, value in pairs
        if isinstance(value, yaml.SequenceNode)
    }


def _build(name: str, rows: Mapping[str, list[Any]], places: Places) -> Cluster:
    converted, found = _convert(rows)
    if found:
        raise Malformed(places.problems(found))
    cluster = Cluster(name=name, **converted)
    if found := check(cluster):
        raise Malformed(places.problems(found))
    return cluster


def _convert(
    rows: Mapping[str, list[Any]],
) -> tuple[dict[str, tuple[Any, ...]], list[Finding]]:
    found: list[Finding] = []
    converted: dict[str, tuple[Any, ...]] = {}
    for section, kind in _SECTIONS.items():
        items = []
        for index, row in enumerate(rows.get(section, [])):
            try:
                items.append(msgspec.convert(row, kind, strict=False))
            except (msgspec.ValidationError, OverflowError, RecursionError) as error:
                found.append((section, index, str(error)))
        converted[section] = tuple(items)
    return converted, found
