"""A reader of the browser feed's frames, independent of the one that pages use."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

HEADER: Final = struct.Struct("<2sBBIIIdIIBB6x")
BLOCK: Final = struct.Struct("<BBHII")
SNAPSHOT, DELTA, TURN = 1, 2, 3
ALL, BITMAP, GAPS = 0, 1, 2


@dataclass(frozen=True)
class Frame:
    """`columns`: by its number the values of a column, by row."""

    kind: int
    epoch: int
    sequence: int
    base: int
    at: float
    watch: int
    rows: int
    detail: int
    columns: dict[int, dict[int, int]] = field(hash=False)


def decode(data: bytes) -> Frame:
    magic, version, kind, epoch, sequence, base, at, watch, rows, detail, count = (
        HEADER.unpack_from(data)
    )
    assert (magic, version) == (b"MF", 2)
    columns, start = {}, HEADER.size
    for _ in range(count):
        number, told, _, values, size = BLOCK.unpack_from(data, start)
        begin = start + BLOCK.size
        named = data[begin : begin + size]
        start = begin + size + values
        read = list(data[begin + size : start])
        columns[number] = dict(zip(_rows(told, named, rows, values), read, strict=True))
    assert len(data) == start
    return Frame(kind, epoch, sequence, base, at, watch, rows, detail, columns)


def _rows(told: int, named: bytes, rows: int, values: int) -> list[int]:
    if told == ALL:
        assert values == rows
        return list(range(rows))
    if told == BITMAP:
        return [row for row in range(rows) if named[row // 8] >> row % 8 & 1]
    return _from_gaps(named)


def _from_gaps(named: bytes) -> list[int]:
    rows, row, gap, shift = [], -1, 0, 0
    for byte in named:
        gap |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            row += gap + 1
            rows.append(row)
            gap = shift = 0
    return rows
