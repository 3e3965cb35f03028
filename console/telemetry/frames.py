"""The binary frames of the browser feed, column by column. Pure; the reader is static/js/wire.js.

Little endian. A header of 40 bytes, then one block a column that has something to tell:

| offset | type    | header                                                                       |
|-------:|---------|------------------------------------------------------------------------------|
|      0 | 2 bytes | "MF"                                                                         |
|      2 | uint8   | version of this layout, 2                                                    |
|      3 | uint8   | kind: 1 snapshot, 2 delta, 3 turn (`Kind`)                                   |
|      4 | uint32  | epoch: which /live/layout.json names these rows                              |
|      8 | uint32  | sequence: the second that the reader's map shows once it took this in        |
|     12 | uint32  | base: fits on every state from this sequence to the one before `sequence`    |
|     16 | float64 | server time, Unix seconds                                                    |
|     24 | uint32  | watch: the number that the tab gave to what it asked for                     |
|     28 | uint32  | rows: how many GPUs (or nodes) the layout has                                |
|     32 | uint8   | detail: 1 a row is a GPU, 2 a row is a node                                  |
|     33 | uint8   | count of blocks                                                              |
|     34 | 6 bytes | zero                                                                         |

| offset | type    | block                                                                        |
|-------:|---------|------------------------------------------------------------------------------|
|      0 | uint8   | column: `latest.Field`, then `tiles.Count`; a reader skips what it knows not |
|      1 | uint8   | how the rows are told: 0 all, 1 a bitmap, 2 gaps (`Rows`)                    |
|      2 | uint16  | zero                                                                         |
|      4 | uint32  | count of values                                                              |
|      8 | uint32  | bytes of the rows                                                            |
|     12 | bytes   | rows                                                                         |
|        | uint8[] | values, one for each row told                                                |

A bitmap has bit `row % 8` of byte `row // 8`. Gaps are the distance from the row before, less one
(from -1 for the first), each in LEB128. The shorter of the two is sent.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from console.telemetry import latest

MAGIC: Final = b"MF"
VERSION: Final = 2
HEADER: Final = struct.Struct("<2sBBIIIdIIBB6x")
BLOCK: Final = struct.Struct("<BBHII")
_LEB_BYTES: Final = 5


class Kind(IntEnum):
    SNAPSHOT = 1  # forget all; what is told is all there is
    DELTA = 2  # what changed since `base`
    TURN = 3  # another watch: forget the values, keep looks, states and counts since `base`


class Detail(IntEnum):
    GPUS = 1
    NODES = 2


class Told(IntEnum):
    """How a block names its rows."""

    ALL = 0
    BITMAP = 1
    GAPS = 2


@dataclass(frozen=True)
class Head:
    kind: Kind
    epoch: int
    sequence: int
    base: int
    at: float
    watch: int
    rows: int
    detail: Detail


@dataclass(frozen=True)
class Body:
    """Encoded blocks: the same bytes for every tab that watches the same from the same base."""

    count: int
    data: bytes


@dataclass(frozen=True)
class Column:
    """Values of one column at `rows` (None: all, in order)."""

    number: int
    rows: latest.Rows | None
    values: latest.Bytes


def frame(head: Head, body: Body) -> bytes:
    header = HEADER.pack(
        MAGIC, VERSION, head.kind, head.epoch, head.sequence, head.base, head.at, head.watch,
        head.rows, head.detail, body.count,
    )  # fmt: skip
    return header + body.data


def encode(columns: Iterable[Column], rows: int) -> Body:
    """Columns without a value are left out."""
    blocks = [_block(column, rows) for column in columns if len(column.values)]
    return Body(len(blocks), b"".join(blocks))


def _block(column: Column, rows: int) -> bytes:
    told, named = _named(column.rows, rows)
    head = BLOCK.pack(column.number, told, 0, len(column.values), len(named))
    return head + named + column.values.tobytes()


def _named(picked: latest.Rows | None, rows: int) -> tuple[Told, bytes]:
    if picked is None or len(picked) == rows:
        return Told.ALL, b""
    if len(picked) * 8 < rows:  # a gap takes a byte at least
        named = gaps(picked)
        if len(named) * 8 < rows:
            return Told.GAPS, named
    return Told.BITMAP, bitmap(picked, rows)


def bitmap(picked: latest.Rows, rows: int) -> bytes:
    bits = np.zeros(rows, np.bool_)
    bits[picked] = True
    return np.packbits(bits, bitorder="little").tobytes()


def gaps(picked: latest.Rows) -> bytes:
    """LEB128 (DWARF 4, 7.6) of the gaps between ascending rows."""
    gap = np.diff(picked, prepend=-1).astype(np.int64) - 1
    sizes = np.ones(len(gap), np.intp)
    for byte in range(1, _LEB_BYTES):
        sizes += gap >= 1 << 7 * byte
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), np.uint8)
    for byte in range(int(sizes.max(initial=0))):
        has = sizes > byte
        low = (gap[has] >> 7 * byte) & 0x7F
        out[starts[has] + byte] = low | np.where(sizes[has] > byte + 1, 0x80, 0)
    return out.tobytes()
