"""What of the fleet one person sees: the layout cut to some pools. Pure."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

from console.telemetry.latest import Ids, Layout, Rows
from console.telemetry.tiles import Nodes, nodes_of

# Database ids of pools; None: all of them, also those to come.
Sight: TypeAlias = frozenset[int] | None
EVERYTHING: Final[Sight] = None


@dataclass(frozen=True)
class View:
    """`rows` are those of the grid, in its order, None for all; the document names just them."""

    epoch: int
    document: bytes
    rows: Rows | None
    ids: Ids
    nodes: Nodes


def view(layout: Layout, pools: Sight) -> View:
    """The epoch is again a checksum, so that a tab whose sight changes reads the names anew."""
    content: dict[str, Any] = msgspec.json.decode(layout.document)
    del content["epoch"]
    if pools is None:
        return View(layout.epoch, layout.document, None, layout.facts.ids, _nodes(content["gpus"]))
    rows = np.flatnonzero(np.isin(layout.facts.pool, list(pools)))
    seen = _cut(content, rows.tolist())
    epoch = zlib.crc32(msgspec.json.encode(seen)) or 1
    document = msgspec.json.encode({"epoch": epoch, **seen})
    return View(epoch, document, rows, layout.facts.ids[rows], _nodes(seen["gpus"]))


def _nodes(gpus: dict[str, list[int]]) -> Nodes:
    numbers = np.array(gpus.get("node", []), np.int32)
    return nodes_of(numbers, int(numbers.max(initial=-1)) + 1)


def _cut(content: dict[str, Any], rows: list[int]) -> dict[str, Any]:
    """Without a name of what is not seen."""
    gpus = {name: [column[row] for row in rows] for name, column in content["gpus"].items()}
    if not rows:
        return {"pools": [], "nodes": {}, "models": [], "services": [], "gpus": gpus}
    cut: dict[str, Any] = {"gpus": gpus}
    kept, gpus["node"] = _renumbered(gpus["node"])
    nodes = {name: [column[old] for old in kept] for name, column in content["nodes"].items()}
    cut["nodes"] = nodes
    for names, holder, key in (
        ("pools", nodes, "pool"), ("models", gpus, "model"), ("services", gpus, "service")
    ):  # fmt: skip
        kept, holder[key] = _renumbered(holder[key])
        cut[names] = [content[names][old] for old in kept]
    return cut


def _renumbered(numbers: Sequence[int]) -> tuple[list[int], list[int]]:
    """The numbers in use, ascending, and each entry as a place among them; -1 stays."""
    used = sorted({number for number in numbers if number >= 0})
    place = {number: index for index, number in enumerate(used)}
    return used, [place.get(number, -1) for number in numbers]
