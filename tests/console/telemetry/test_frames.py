from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from console.telemetry import frames, latest
from console.telemetry.seat import Seat, Tick
from tests.wire.frames import SNAPSHOT, Screen, decode

GPUS = 4
IDS = np.array([3, 5, 8, 1_000_000], np.uint32)
CELLS = st.binary(min_size=GPUS * 12, max_size=GPUS * 12)
# A second of the map, and whether the browser got to read it before the next.
SECONDS = st.lists(st.tuples(CELLS, st.booleans()), min_size=1, max_size=8)


def grid_of(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8).reshape(GPUS, 12)


def as_shown(cells: np.ndarray) -> dict[int, bytes]:
    return {int(gpu): cells[row].tobytes() for row, gpu in enumerate(IDS)}


def test_a_snapshot_names_every_gpu():
    cells = grid_of(bytes(range(48)))
    frame = decode(frames.snapshot(IDS, cells, epoch=7, sequence=9, server_time=1.5))
    assert (frame.kind, frame.epoch, frame.sequence, frame.at) == (SNAPSHOT, 7, 9, 1.5)
    assert frame.cells == as_shown(cells)


def test_a_delta_names_only_what_changed():
    before, after = grid_of(bytes(48)), grid_of(bytes(12) + b"\x01" + bytes(35))
    rows = latest.changed(before, after)
    frame = decode(frames.delta(IDS, after, rows, 1, 2, 0.0))
    assert frame.cells == {5: b"\x01" + bytes(11)}


@given(SECONDS)
async def test_whatever_a_tab_misses_it_ends_at_the_grid(seconds):
    seat, screen, before = Seat(), Screen(), grid_of(bytes(48))
    for sequence, (data, reads) in enumerate([*seconds, (seconds[-1][0], True)]):
        cells = grid_of(data)
        rows = latest.changed(before, cells)
        delta = frames.delta(IDS, cells, rows, 1, sequence, 0.0)
        seat.offer(Tick(1, sequence, 0.0, IDS, cells, delta), "{}")
        before = cells
        if reads:
            frame, _ = await seat.take()
            assert isinstance(frame, bytes)
            screen.show(frame)
    assert not screen.gap
    assert screen.cells == as_shown(before)
