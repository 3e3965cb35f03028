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
from console.telemetry.latest import MISSING, Field, Flag, Look
from tests.wire.frames import decode

GOLDEN: Final = Path(__file__).parent / "golden"
IDS: Final = np.array([1, 2, 7, 300, 70_000, 4_000_000_000], np.uint32)


def cell(look: Look, **fields: int) -> list[int]:
    """All values missing but those named."""
    out = [MISSING] * len(Field)
    out[Field.LOOK], out[Field.STATE], out[Field.FLAGS] = look, 1, 0
    for name, value in fields.items():
        out[Field[name.upper()]] = value
    return out


FIRST: Final = np.array(
    [
        cell(Look.OK, sm_activity=104, gpu_util=180, memory=100, headroom=50, p99=75, duty=200,
             flags=Flag.ONLINE | Flag.OFFLINE | Flag.ENFORCE),
        cell(Look.ZERO, sm_activity=0, gpu_util=0, headroom=0, state=4, flags=Flag.ONLINE),
        cell(Look.IDLE, sm_activity=0, memory=1, power=28),
        cell(Look.STALE, sm_activity=90, temperature=128, state=3),
        cell(Look.UNREACHABLE),
        cell(Look.UNSUPPORTED, gpu_util=60, flags=Flag.DEGRADED | Flag.HARDWARE, state=6),
    ],
    np.uint8,
)  # fmt: skip
SECOND: Final = FIRST.copy()
SECOND[1] = cell(Look.OK, sm_activity=2, headroom=4, state=5, flags=Flag.ONLINE)
SECOND[4] = cell(Look.OK, sm_activity=254, offline_share=20, state=2, flags=Flag.OFFLINE)
CHANGED: Final = np.array([1, 4])
NOTHING: Final = np.array([], np.intp)
T: Final = 1_800_000_000.25

FRAMES: Final = {
    "snapshot": frames.snapshot(IDS, FIRST, 0xDEADBEEF, 41, T),
    "delta": frames.delta(IDS, SECOND, CHANGED, 0xDEADBEEF, 42, T + 1),
    "nothing_changed": frames.delta(IDS, SECOND, NOTHING, 0xDEADBEEF, 43, T + 2),
    "empty_fleet": frames.snapshot(IDS[:0], FIRST[:0], 1, 0, T),
}


def expected(frame: bytes) -> dict[str, Any]:
    read = decode(frame)
    return {
        "kind": {1: "snapshot", 2: "delta"}[read.kind],
        "epoch": read.epoch,
        "sequence": read.sequence,
        "at": read.at,
        "cells": {str(gpu): list(data) for gpu, data in read.cells.items()},
    }


def described() -> dict[str, Any]:
    return {
        "fields": [field.name for field in Field],
        "looks": [look.name for look in Look],
        "flags": {flag.name: int(flag) for flag in Flag},
        "frames": {name: expected(frame) for name, frame in FRAMES.items()},
    }


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_byte_for_byte_what_browsers_were_tested_with(name):
    assert FRAMES[name] == (GOLDEN / f"{name}.bin").read_bytes()


def test_the_description_tells_the_same_as_the_frames():
    assert json.loads((GOLDEN / "frames.json").read_text()) == described()


def write() -> None:
    for name, frame in FRAMES.items():
        (GOLDEN / f"{name}.bin").write_bytes(frame)
    (GOLDEN / "frames.json").write_text(json.dumps(described(), indent=1) + "\n")


if __name__ == "__main__":
    write()
