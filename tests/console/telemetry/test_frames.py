from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from console.telemetry import frames
from console.telemetry.frames import Column, Detail, Head, Kind
from tests.wire.frames import ALL, BITMAP, BLOCK, GAPS, HEADER, decode

PICKED = st.sets(st.integers(0, 70_000), min_size=1, max_size=60)


def one_column(picked: list[int] | None, rows: int) -> bytes:
    values = np.arange(rows if picked is None else len(picked)).astype(np.uint8)
    column = Column(5, None if picked is None else np.array(picked), values)
    head = Head(Kind.DELTA, 7, 10, 9, 1.5, 3, rows, Detail.GPUS)
    return frames.frame(head, frames.encode([column], rows))


def told(frame: bytes) -> int:
    return int(BLOCK.unpack_from(frame, HEADER.size)[1])


@given(PICKED, st.integers(1, 4))
def test_every_row_is_read_as_it_was_written(picked, sparse):
    rows = sorted(picked)
    frame = decode(one_column(rows, (rows[-1] + 1) * sparse))
    assert frame.columns[5] == {row: i % 256 for i, row in enumerate(rows)}


def test_rows_are_told_in_the_shorter_way():
    assert told(one_column(None, 100)) == ALL
    assert told(one_column([1, 50], 1_000)) == GAPS
    assert told(one_column(list(range(0, 1_000, 2)), 1_000)) == BITMAP
    assert len(one_column(list(range(0, 1_000, 9)), 1_000)) <= HEADER.size + 12 + 112 + 125


def test_a_column_without_a_change_takes_no_place():
    nothing = Column(5, np.array([], np.intp), np.array([], np.uint8))
    assert frames.encode([nothing], 10) == frames.Body(0, b"")
