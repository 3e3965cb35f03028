"""Samples on their way into the history: a flat table, one row a GPU and second. Pure (numpy).

Whatever brings samples (a web process each ten seconds, an agent after a gap) brings such a table,
so there is one way in. Packed, column follows column, byte by byte, deflated.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from console.history.kept import NAMES, WORST, Codes

_LEVEL: Final = 1
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
    order = np.lexsort((rows.gpu, rows.second))
    gpu, second, last, worst = rows.take(order)
    beyond = np.where(worst == last[:, :WORST], 0, worst)  # mostly the same: then it costs nothing
    codes = np.concatenate([last, beyond], axis=1).T.astype("<i2")
    parts = [
        np.diff(gpu, prepend=0).astype("<i4").tobytes(),
        np.diff(second, prepend=0).astype("<i8").tobytes(),
        np.ascontiguousarray((worst == last[:, :WORST]).T).tobytes(),
        shuffled(codes),
    ]
    return _encoder.encode(_Packed(len(gpu), _WIDTH, zlib.compress(b"".join(parts), _LEVEL)))


def unpack(data: bytes) -> Rows:
    """Raises ValueError for what `pack` of this version did not make."""
    try:
        packed = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a batch of samples: {error}") from error
    n = packed.rows
    if packed.width != _WIDTH or not 0 <= n <= MOST_ROWS:
        raise ValueError(f"a batch of {n} rows of {packed.width} columns is not of this version")
    whole = n * (4 + 8 + WORST + 2 * _WIDTH)
    raw = inflate(packed.data, whole)
    gpu = np.cumsum(np.frombuffer(raw, "<i4", n), dtype=np.int64)
    second = np.cumsum(np.frombuffer(raw, "<i8", n, 4 * n))
    same = np.frombuffer(raw, np.bool_, n * WORST, 12 * n).reshape(WORST, n).T
    codes = unshuffled(raw[n * (12 + WORST) :], (_WIDTH, n)).T
    last, beyond = codes[:, : len(NAMES)], codes[:, len(NAMES) :]
    return Rows(gpu, second, last, np.where(same, last[:, :WORST], beyond))


def inflate(data: bytes, size: int) -> bytes:
    """Never more memory than `size`. Raises ValueError when it is anything else."""
    machine = zlib.decompressobj()
    try:
        raw = machine.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(f"deflated data is broken: {error}") from error
    if len(raw) != size or not machine.eof:
        raise ValueError(f"deflated data is not the {size} bytes that it should be")
    return raw


def shuffled(codes: npt.NDArray[np.int16]) -> bytes:
    """All low bytes, then all high bytes: alike stands beside alike, which deflates far better."""
    return (
        np.ascontiguousarray(codes.astype("<i2").reshape(-1))
        .view(np.uint8)
        .reshape(-1, 2)
        .T.tobytes()
    )


def unshuffled(raw: bytes, shape: tuple[int, ...]) -> Codes:
    pairs = np.frombuffer(raw, np.uint8).reshape(2, -1).T
    return np.ascontiguousarray(pairs).view("<i2").reshape(shape)
