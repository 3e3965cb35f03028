"""The frames that both ends agree on: this side writes them, tests/js/wire.test.js reads them.

After a change of the layout on purpose: `python -m tests.wire.test_golden_frames`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from console.telemetry import frames
from console.telemetry.frames import Column, Detail, Head, Kind
from console.telemetry.latest import MISSING, Field, Flag, Look
from console.telemetry.tiles import Count
from tests.wire.frames import decode

GOLDEN: Final = Path(__file__).parent / "golden"
EPOCH: Final = 0xDEADBEEF
T: Final = 1_800_000_000.25
FEW, MANY = 6, 70_000


def head(kind: Kind, sequence: int, base: int, **other: Any) -> Head:
    given = {"at": T + sequence, "watch": 1, "rows": FEW, "detail": Detail.GPUS, **other}
    return Head(kind, EPOCH, sequence, base, **given)


def column(number: int, values: list[int], rows: list[int] | None = None) -> Column:
    picked = None if rows is None else np.array(rows)
    return Column(number, picked, np.array(values, np.uint8))


def frame(head: Head, *columns: Column) -> bytes:
    return frames.frame(head, frames.encode(columns, head.rows))


FIRST: Final = (
    column(Field.LOOK, list(Look)),
    column(Field.STATE, [1, 4, 1, 3, 0, 6]),
    column(Field.FLAGS, [Flag.ONLINE | Flag.OFFLINE | Flag.ENFORCE, Flag.ONLINE, 0, 0, 0,
                         Flag.DEGRADED | Flag.HARDWARE]),
    column(Field.HEADROOM, [50, 0, MISSING, 90, MISSING, MISSING]),
)  # fmt: skip
FRAMES: Final = {
    "snapshot": frame(head(Kind.SNAPSHOT, 41, 0), *FIRST),
    "delta": frame(
        head(Kind.DELTA, 42, 41),
        column(Field.LOOK, [Look.OK, Look.OK], [1, 4]),
        column(Field.HEADROOM, [4, 254], [1, 4]),
    ),
    "nothing_changed": frame(head(Kind.DELTA, 45, 42)),
    "turn": frame(
        head(Kind.TURN, 45, 45, watch=2),
        column(Field.MEMORY, [100, 0, MISSING], [0, 1, 5]),
        column(Field.DUTY, [200], [0]),
    ),
    "far_apart": frame(
        head(Kind.DELTA, 46, 45, rows=MANY),
        column(Field.HEADROOM, [1, 2, 3, 4, MISSING], [0, 127, 129, 20_000, 69_999]),
    ),
    "dense": frame(
        head(Kind.DELTA, 47, 46, rows=100),
        column(Field.SM_ACTIVITY, list(range(50)), list(range(1, 100, 2))),
    ),
    "nodes": frame(
        head(Kind.SNAPSHOT, 48, 0, rows=2, detail=Detail.NODES),
        column(Field.LOOK, [Look.OK, Look.UNREACHABLE]),
        column(Field.HEADROOM, [12, MISSING]),
        column(Count.OVERLIMIT, [1, 0]),
        column(Count.UNREACHABLE, [0, 8]),
    ),
    "empty_fleet": frame(head(Kind.SNAPSHOT, 0, 0, rows=0)),
}


def expected(data: bytes) -> dict[str, Any]:
    read = decode(data)
    return {
        "kind": Kind(read.kind).name.lower(),
        "epoch": read.epoch,
        "sequence": read.sequence,
        "base": read.base,
        "at": read.at,
        "watch": read.watch,
        "rows": read.rows,
        "detail": Detail(read.detail).name.lower(),
        "columns": {
            str(number): {str(row): value for row, value in values.items()}
            for number, values in read.columns.items()
        },
    }


def described() -> dict[str, Any]:
    return {
        "fields": [field.name for field in Field],
        "counts": {count.name: int(count) for count in Count},
        "looks": [look.name for look in Look],
        "flags": {flag.name: int(flag) for flag in Flag},
        "frames": {name: expected(data) for name, data in FRAMES.items()},
    }


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_byte_for_byte_what_browsers_were_tested_with(name):
    assert FRAMES[name] == (GOLDEN / f"{name}.bin").read_bytes()


def test_the_description_tells_the_same_as_the_frames():
    assert json.loads((GOLDEN / "frames.json").read_text()) == described()


def write() -> None:
    for name, data in FRAMES.items():
        (GOLDEN / f"{name}.bin").write_bytes(data)
    (GOLDEN / "frames.json").write_text(json.dumps(described(), indent=1) + "\n")


if __name__ == "__main__":
    write()
