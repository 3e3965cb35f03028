"""Fleets as layouts, for tests of what browsers are shown."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from console.telemetry import latest
from console.telemetry.latest import MISSING, Field, Layout, Look
from tests.console.telemetry.fleet import facts


def layout(nodes: int = 2, gpus: int = 2, epoch: int = 5, **columns: Any) -> Layout:
    """`nodes` nodes of `gpus` GPUs with ids from 11, half of the nodes in pool b."""
    count = nodes * gpus
    made = facts(count, **columns)
    node_of = [row // gpus for row in range(count)]
    document = {
        "epoch": epoch,
        "pools": ["a", "b"],
        "nodes": {
            "name": [f"node-{node}" for node in range(nodes)],
            "pool": [int(node >= nodes // 2) for node in range(nodes)],
            "rack": [None] * nodes,
            "agent": [True] * nodes,
        },
        "models": ["A100"],
        "services": ["rank", "ads"],
        "gpus": {
            "id": made.ids.tolist(),
            "index": [row % gpus for row in range(count)],
            "node": node_of,
            "model": [0] * count,
            "service": [-1 if row % gpus else int(row >= count // 2) for row in range(count)],
            "memory_bytes": [1] * count,
        },
    }
    pool = np.array([1 + int(node >= nodes // 2) for node in node_of], np.int64)
    return Layout(
        epoch, latest.Facts(**{**vars(made), "pool": pool}), msgspec.json.encode(document)
    )


def cell(look: Look = Look.OK, state: int = 1, flags: int = 0, **values: int) -> list[int]:
    """The bytes of a GPU, missing but those named by their field."""
    out = [MISSING] * len(Field)
    out[Field.LOOK], out[Field.STATE], out[Field.FLAGS] = look, state, flags
    for name, value in values.items():
        out[Field[name.upper()]] = value
    return out


def cells(*rows: list[int]) -> np.ndarray:
    """As `latest.cells` gives them."""
    return np.array(rows, np.uint8)
