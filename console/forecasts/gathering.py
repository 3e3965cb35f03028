"""The bin that is not over yet, in Redis: lost with it, it costs that bin and no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, cast

import msgspec
import numpy as np
from django.conf import settings

from console import live_state
from console.forecasts.series import BIN_S, Floats
from console.telemetry.latest import Ids

# A bin that nobody went on with for this long is given up.
_FORGET_AFTER_S: Final = 3_600


class _Open(msgspec.Struct, frozen=True, array_like=True):
    """Sums and counts of what was seen in bin `number`, by GPU id: packed little-endian arrays."""

    number: int
    total: bytes
    count: bytes


@dataclass(frozen=True)
class Ended:
    """Means by GPU id, percent, NaN where nobody measured."""

    number: int
    percent: Floats


_decoder: Final = msgspec.msgpack.Decoder(_Open)


def add(number: int, ids: Ids, percent: Floats) -> Ended | None:
    """Count what is seen now towards bin `number`. The bin before, when it has thereby ended.

    Raises redis.RedisError.
    """
    before = _read()
    goes_on = before is not None and before.number == number
    total, count = _sums(before if goes_on else None, int(ids.max(initial=0)) + 1)
    known = np.isfinite(percent)
    total[ids[known]] += percent[known]
    count[ids[known]] += 1
    value = _Open(number, total.tobytes(), count.tobytes())
    live_state.client().set(_key(), msgspec.msgpack.encode(value), ex=_FORGET_AFTER_S)
    return None if before is None or goes_on else _ended(before)


def bin_number(at_s: float) -> int:
    """Of a Unix time, on the world clock."""
    return int(at_s * settings.WORLD_CLOCK // BIN_S)


def ended_at(number: int) -> float:
    """Unix time."""
    return (number + 1) * BIN_S / settings.WORLD_CLOCK


def _ended(one: _Open) -> Ended:
    total, count = _sums(one, 0)
    percent = np.where(count > 0, total / np.maximum(count, 1), np.nan)
    return Ended(one.number, percent.astype(np.float32))


def _sums(one: _Open | None, width: int) -> tuple[Floats, Floats]:
    """As long as `width` at least; both float32."""
    if one is None:
        return np.zeros(width, np.float32), np.zeros(width, np.float32)
    total, count = (np.frombuffer(part, "<f4").copy() for part in (one.total, one.count))
    missing = max(0, width - len(total))
    return np.pad(total, (0, missing)), np.pad(count, (0, missing))


def _read() -> _Open | None:
    data = cast("bytes | None", live_state.client().get(_key()))
    try:
        return None if data is None else _decoder.decode(data)
    except msgspec.DecodeError:  # of another version
        return None


def _key() -> str:
    return f"{settings.REDIS_PREFIX}:online_bin"
