"""The forecasts in force, in Redis: they are made anew every few minutes from rows that last.

One hash, a field for every `BLOCK` GPU ids: a page reads one field, a round all of them. Without
it nothing is foretold, and shares answer to the recent peak alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, cast

import msgspec
import numpy as np
import redis
from django.conf import settings

from console import live_state
from console.forecasts.packing import MISSING, packed
from console.forecasts.series import AHEAD, BIN_S, HORIZONS, KINDS, Forecast
from console.telemetry.latest import Ids

log = logging.getLogger(__name__)

BLOCK: Final = 256
_WIDTH: Final = 2 * len(HORIZONS) + 1


class _Block(msgspec.Struct, frozen=True, array_like=True):
    """Rows of `_WIDTH` bytes: middle and high of each horizon, kind. `at`: when the last bin
    ended, Unix seconds."""

    at: float
    ids: bytes
    rows: bytes


@dataclass(frozen=True)
class Outlook:
    """Of one GPU, made `at` (Unix s): percent by horizon, None where unknown; a word of KINDS."""

    at: float
    middle: tuple[float | None, ...]
    high: tuple[float | None, ...]
    kind: str

    @property
    def peak_percent(self) -> float | None:
        """The highest that must be expected within the horizon; None where nothing is known."""
        return max((one for one in self.high if one is not None), default=None)


_decoder: Final = msgspec.msgpack.Decoder(_Block)


def put(at: float, ids: Ids, forecast: Forecast) -> None:
    """Replaces all. `ids` ascend. Raises redis.RedisError."""
    rows = np.hstack(
        [packed(forecast.middle), packed(forecast.high), forecast.kind[:, None]]
    ).astype(np.uint8)
    blocks = ids // BLOCK
    starts = np.flatnonzero(np.diff(blocks, prepend=np.uint32(0xFFFFFFFF)))
    parts = zip(np.split(ids, starts[1:]), np.split(rows, starts[1:]), strict=True)
    fields = {
        int(some[0]) // BLOCK: msgspec.msgpack.encode(
            _Block(at, some.astype("<u4").tobytes(), part.tobytes())
        )
        for some, part in parts
        if len(some)
    }
    with live_state.client().pipeline(transaction=True) as pipe:
        pipe.delete(_key())
        if fields:
            pipe.hset(_key(), mapping=fields)
        pipe.expire(_key(), lasts_s())
        pipe.execute()


def lasts_s() -> int:
    """Real seconds for which a forecast says anything: its longest horizon."""
    return max(1, AHEAD * BIN_S // settings.WORLD_CLOCK)


def is_there() -> bool:
    """Whether any forecast is in force. Raises redis.RedisError."""
    return bool(live_state.client().exists(_key()))


def of(gpu_id: int) -> Outlook | None:
    """None where nothing is foretold, or Redis does not answer."""
    try:
        data = cast("bytes | None", live_state.client().hget(_key(), str(gpu_id // BLOCK)))
    except redis.RedisError as error:
        log.warning("No forecast can be read, Redis does not answer: %s", error)
        return None
    return next((told for one, told in _told(data) if one == gpu_id), None)


def peaks() -> dict[int, float]:
    """By GPU id, the highest that must be expected, in percent; nothing without Redis."""
    try:
        fields = cast("dict[bytes, bytes]", live_state.client().hgetall(_key()))
    except redis.RedisError as error:
        log.warning("No forecast can be read, Redis does not answer: %s", error)
        return {}
    found: dict[int, float] = {}
    for data in fields.values():
        ids, rows, _ = _arrays(data)
        high = rows[:, len(HORIZONS) : 2 * len(HORIZONS)].astype(np.int16)
        peak = np.where(high == MISSING, -1, high).max(axis=1, initial=-1)
        known = peak >= 0
        found |= dict(zip(ids[known].tolist(), (peak[known] / 2).tolist(), strict=True))
    return found


def _told(data: bytes | None) -> Iterator[tuple[int, Outlook]]:
    if data is None:
        return
    ids, rows, at = _arrays(data)
    count = len(HORIZONS)
    for gpu_id, row in zip(ids.tolist(), rows.tolist(), strict=True):
        percent = [None if step == MISSING else step / 2 for step in row[:-1]]
        yield gpu_id, Outlook(at, tuple(percent[:count]), tuple(percent[count:]), KINDS[row[-1]])


def _arrays(data: bytes) -> tuple[Ids, np.ndarray[tuple[int, int], np.dtype[np.uint8]], float]:
    """Empty when a process of another version wrote it."""
    try:
        block = _decoder.decode(data)
        rows = np.frombuffer(block.rows, np.uint8).reshape(-1, _WIDTH)
    except (msgspec.DecodeError, ValueError):
        return np.empty(0, np.uint32), np.empty((0, _WIDTH), np.uint8), 0.0
    return np.frombuffer(block.ids, "<u4"), rows, block.at


def _key() -> str:
    return f"{settings.REDIS_PREFIX}:forecasts"
