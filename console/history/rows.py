"""Samples on their way into the history: a flat table, one row a GPU and second. Pure (numpy).

Whatever brings samples (a web process each ten seconds, an agent after a gap) brings such a table,
so there is one way in. Packed, column follows column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from console.history.kept import MISSING, NAMES, WORST, Codes
from console.history.steps import deflate, inflate, shuffled, steps, summed, unshuffled

_WIDTH: Final = len(NAMES) + WORST
# More than this is no batch of ours.
MOST_ROWS: Final = 4_000_000


class Rows(NamedTuple):
    """`gpu` and `second` (Unix) [n], `last` [n, NAMES] and `worst` [n, WORST] as codes."""

    gpu: npt.NDArray[np.int64]
    second: npt.NDArray[np.int64]
    last: Codes
    worst: Codes

    def take(self, which: npt.NDArray[np.bool_] | npt.NDArray[np.intp]) -> Rows:
        return Rows(self.gpu[which], self.second[which], self.last[which], self.worst[which])


def joined(many: Sequence[Rows]) -> Rows:
    return Rows(
        np.concatenate([one.gpu for one in many]),
        np.concatenate([one.second for one in many]),
        np.concatenate([one.last for one in many]),
        np.concatenate([one.worst for one in many]),
    )


def none() -> Rows:
    empty = np.empty(0, np.int64)
    return Rows(empty, empty, np.empty((0, len(NAMES)), np.int16), np.empty((0, WORST), np.int16))


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    rows: int
    width: int
    data: bytes


_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Packed)


def pack(rows: Rows) -> bytes:
    """Sorted by GPU, then second."""
    gpu, second, last, worst = rows.take(np.lexsort((rows.second, rows.gpu)))
    codes = np.concatenate([steps(last.T), (worst - last[:, :WORST]).T])
    parts = [
        np.diff(gpu, prepend=0).astype("<i4").tobytes(),
        np.diff(second, prepend=0).astype("<i8").tobytes(),
        shuffled(codes),
    ]
    return _encoder.encode(_Packed(len(gpu), _WIDTH, deflate(b"".join(parts))))


def unpack(data: bytes) -> Rows:
    """Names that were added since are missing in it. Raises ValueError for what `pack` of this
    version or an older did not make."""
    try:
        packed = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a batch of samples: {error}") from error
    n, width = packed.rows, packed.width
    names = width - WORST
    if not (WORST <= names <= len(NAMES) and 0 <= n <= MOST_ROWS):
        raise ValueError(f"a batch of {n} rows of {width} columns is not of this version")
    raw = inflate(packed.data, n * (4 + 8 + 2 * width))
    gpu = np.cumsum(np.frombuffer(raw, "<i4", n), dtype=np.int64)
    second = np.cumsum(np.frombuffer(raw, "<i8", n, 4 * n))
    codes = unshuffled(raw[n * 12 :], (width, n))
    last = np.full((n, len(NAMES)), MISSING, np.int16)
    last[:, :names] = summed(codes[:names]).T
    return Rows(gpu, second, last, last[:, :WORST] + codes[names:].T)
