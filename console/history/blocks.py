"""A block of the history: a span of time of some GPUs, as it lies in the database. Pure (numpy).

Raw blocks hold the last value of each second and, for the signals, the worst. Rolled-up ones hold
for each period the mean, the low and the high, and from how many seconds. What is stored is the
step from one moment to the next, and of a worst, a low or a high its distance from the value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from console.history.kept import MISSING, NAMES, WORST, Codes
from console.history.steps import deflate, inflate, shuffled, steps, summed, unshuffled

Counts: TypeAlias = npt.NDArray[np.uint32]

_MOST_CODES: Final = 64 << 20


@dataclass(frozen=True)
class Raw:
    """`last` [NAMES, GPUs, seconds] and `worst` [WORST, GPUs, seconds], codes."""

    gpus: tuple[int, ...]
    last: Codes
    worst: Codes


@dataclass(frozen=True)
class Rolled:
    """`mean`, `low` and `high` [NAMES, members, periods] as codes, MISSING where nobody knew;
    `count` [members, periods] of the samples that went in: seconds, of all GPUs of a group.

    `members` are GPU ids; a block of a pool or a service has one member, its own id.
    """

    members: tuple[int, ...]
    mean: Codes
    low: Codes
    high: Codes
    count: Counts


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    kind: int
    members: tuple[int, ...]
    points: int
    names: int
    data: bytes


_RAW, _ROLLED = 1, 2
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Packed)


def pack_raw(block: Raw) -> bytes:
    beyond = block.worst - block.last[:WORST]  # wraps, and wraps back
    codes = np.concatenate([steps(block.last), beyond])
    return _pack(_RAW, block.gpus, block.last.shape[2], shuffled(codes))


def pack_rolled(block: Rolled) -> bytes:
    codes = np.concatenate([steps(block.mean), block.mean - block.low, block.high - block.mean])
    raw = shuffled(codes) + block.count.astype("<u4").tobytes()
    return _pack(_ROLLED, block.members, block.mean.shape[2], raw)


def _pack(kind: int, members: Sequence[int], points: int, raw: bytes) -> bytes:
    return _encoder.encode(_Packed(kind, tuple(members), points, len(NAMES), deflate(raw)))


def unpack(data: bytes) -> Raw | Rolled:
    """Raises ValueError for what is not a block. Names that were added since are missing in it."""
    try:
        packed = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a block of the history: {error}") from error
    n, points, names = len(packed.members), packed.points, packed.names
    planes = names + WORST if packed.kind == _RAW else 3 * names
    if not (WORST <= names <= len(NAMES) and 0 < n * points * planes <= _MOST_CODES):
        raise ValueError(f"a block of {n} × {points} × {names} is not of this version or an older")
    size = 2 * planes * n * points
    if packed.kind == _RAW:
        codes = unshuffled(inflate(packed.data, size), (planes, n, points))
        last = summed(codes[:names])
        return Raw(packed.members, _whole(last), last[:WORST] + codes[names:])
    raw = inflate(packed.data, size + 4 * n * points)
    codes = unshuffled(raw[:size], (planes, n, points))
    moves, below, above = codes.reshape(3, names, n, points)
    mean = summed(moves)
    count = np.frombuffer(raw, "<u4", offset=size).reshape(n, points)
    low, high = _whole(mean - below), _whole(mean + above)
    return Rolled(packed.members, _whole(mean), low, high, count)


def _whole(codes: Codes) -> Codes:
    """With all NAMES: a block of an older version knew fewer."""
    missing = len(NAMES) - len(codes)
    if not missing:
        return codes
    return np.concatenate([codes, np.full((missing, *codes.shape[1:]), MISSING, np.int16)])
