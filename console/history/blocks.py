"""A block of the history: a span of time of some GPUs, as it lies in the database. Pure (numpy).

Raw blocks hold the last value of each second and, for the signals, the worst. Rolled-up ones hold
for each period the mean, the low and the high, and from how many seconds. What is stored is the
step from one moment to the next, and of a worst, a low or a high its distance from the value. In a
raw block of an hour each GPU is deflated by itself, so that nobody unpacks eight to read one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
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
    data: bytes | tuple[bytes, ...]


_RAW, _ROLLED, _HOUR = 1, 2, 3
_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(_Packed)


def pack_raw(block: Raw) -> bytes:
    """Of a short span."""
    return _pack(_RAW, block.gpus, block.last.shape[2], deflate(shuffled(_raw_codes(block))))


def pack_hour(block: Raw) -> bytes:
    """Of a long span, each GPU by itself."""
    codes = _raw_codes(block)
    data = tuple(deflate(shuffled(codes[:, at])) for at in range(len(block.gpus)))
    return _pack(_HOUR, block.gpus, block.last.shape[2], data)


def _raw_codes(block: Raw) -> Codes:
    beyond = block.worst - block.last[:WORST]  # wraps, and wraps back
    return np.concatenate([steps(block.last), beyond])


def pack_rolled(block: Rolled) -> bytes:
    codes = np.concatenate([steps(block.mean), block.mean - block.low, block.high - block.mean])
    raw = shuffled(codes) + block.count.astype("<u4").tobytes()
    return _pack(_ROLLED, block.members, block.mean.shape[2], deflate(raw))


def _pack(kind: int, members: Sequence[int], points: int, data: bytes | tuple[bytes, ...]) -> bytes:
    return _encoder.encode(_Packed(kind, tuple(members), points, len(NAMES), data))


def unpack(data: bytes, members: Collection[int] | None = None) -> Raw | Rolled:
    """Only `members`, if given. Raises ValueError for what is not a block. Names that were added
    since are missing in it."""
    try:
        packed = _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a block of the history: {error}") from error
    n, points, names = len(packed.members), packed.points, packed.names
    bounded = points > 0 and 0 < n * points * (3 * names + WORST) <= _MOST_CODES
    if not (bounded and WORST <= names <= len(NAMES) and packed.kind in _UNPACK):
        raise ValueError(f"a block of {n} × {points} × {names} is not of this version or an older")
    which = [at for at, one in enumerate(packed.members) if members is None or one in members]
    return _UNPACK[packed.kind](packed, which)


def _unpack_raw(packed: _Packed, which: Sequence[int]) -> Raw:
    shape = (packed.names + WORST, len(packed.members), packed.points)
    codes = unshuffled(inflate(_one(packed), 2 * math.prod(shape)), shape)
    return _raw(packed, which, codes[:, which])


def _unpack_hour(packed: _Packed, which: Sequence[int]) -> Raw:
    shape = (packed.names + WORST, 1, packed.points)
    if isinstance(packed.data, bytes) or len(packed.data) != len(packed.members):
        raise ValueError("a block of an hour has one part for each of its GPUs")
    each = [unshuffled(inflate(packed.data[at], 2 * math.prod(shape)), shape) for at in which]
    nobody = np.empty((shape[0], 0, shape[2]), np.int16)
    return _raw(packed, which, np.concatenate([nobody, *each], axis=1))


def _raw(packed: _Packed, which: Sequence[int], codes: Codes) -> Raw:
    last = summed(codes[: packed.names])
    worst = last[:WORST] + codes[packed.names :]
    return Raw(tuple(packed.members[at] for at in which), _whole(last), worst)


def _unpack_rolled(packed: _Packed, which: Sequence[int]) -> Rolled:
    shape = (packed.names, len(packed.members), packed.points)
    size = 2 * 3 * math.prod(shape)
    raw = inflate(_one(packed), size + 4 * math.prod(shape[1:]))
    moves, below, above = unshuffled(raw[:size], (3 * shape[0], *shape[1:])).reshape(3, *shape)
    members = tuple(packed.members[at] for at in which)
    mean = summed(moves[:, which])
    low, high = _whole(mean - below[:, which]), _whole(mean + above[:, which])
    count = np.frombuffer(raw, "<u4", offset=size).reshape(shape[1:])[which]
    return Rolled(members, _whole(mean), low, high, count)


def _one(packed: _Packed) -> bytes:
    if isinstance(packed.data, bytes):
        return packed.data
    raise ValueError("a block of more than one part is that of an hour")


_UNPACK: Final[Mapping[int, Callable[[_Packed, Sequence[int]], Raw | Rolled]]] = {
    _RAW: _unpack_raw,
    _HOUR: _unpack_hour,
    _ROLLED: _unpack_rolled,
}


def _whole(codes: Codes) -> Codes:
    """With all NAMES: a block of an older version knew fewer."""
    missing = len(NAMES) - len(codes)
    if not missing:
        return codes
    return np.concatenate([codes, np.full((missing, *codes.shape[1:]), MISSING, np.int16)])
