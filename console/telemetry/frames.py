"""The binary frames of the browser feed. Pure; the decoder is static/js/wire.js.

Little endian. A header of 32 bytes, then `count` GPU ids (uint32), then `count` cells of 12 bytes
(`latest.Field`), so that both arrays can be read in place:

| offset | type    | what                                                                    |
|-------:|---------|-------------------------------------------------------------------------|
|      0 | 2 bytes | "MF"                                                                    |
|      2 | uint8   | version of this layout, 1                                               |
|      3 | uint8   | kind: 1 snapshot (all GPUs), 2 delta (those that changed)               |
|      4 | uint32  | epoch: which /live/layout.json names these GPUs                         |
|      8 | uint32  | sequence: a delta fits on the state with sequence - 1                   |
|     12 | uint32  | count of GPUs                                                           |
|     16 | float64 | server time, Unix seconds                                               |
|     24 | uint8   | bytes a cell, 12: a reader takes the fields it knows and skips the rest |
|     25 | 7 bytes | zero                                                                    |
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

import numpy as np

from console.telemetry.latest import Bytes, Field, Ids, Rows

MAGIC: Final = b"MF"
VERSION: Final = 1
HEADER: Final = struct.Struct("<2sBBIIIdB7x")


class Kind(IntEnum):
    SNAPSHOT = 1
    DELTA = 2


def snapshot(ids: Ids, cells: Bytes, epoch: int, sequence: int, server_time: float) -> bytes:
    """Every GPU: what a browser starts from."""
    return _frame(Kind.SNAPSHOT, ids, cells, epoch, sequence, server_time)


def delta(
    ids: Ids, cells: Bytes, changed: Rows, epoch: int, sequence: int, server_time: float
) -> bytes:
    """The GPUs of the rows `changed`; empty when nothing did, which still tells the time."""
    return _frame(Kind.DELTA, ids[changed], cells[changed], epoch, sequence, server_time)


def _frame(
    kind: Kind, ids: Ids, cells: Bytes, epoch: int, sequence: int, server_time: float
) -> bytes:
    header = HEADER.pack(MAGIC, VERSION, kind, epoch, sequence, len(ids), server_time, len(Field))
    return header + ids.astype("<u4").tobytes() + np.ascontiguousarray(cells).tobytes()
