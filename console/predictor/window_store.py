"""The windows that are open, as live state: one packed value in Redis.

Without it no window fills, so nothing is observed; nothing that was is lost.
"""

from __future__ import annotations

from typing import Final

import msgspec
import redis
from django.conf import settings

from console import live_state
from console.errors import Unavailable
from console.predictor.windows import Window

FORGET_AFTER_S: Final = 600

_decoder: Final = msgspec.msgpack.Decoder(dict[str, Window])


def read() -> dict[str, Window]:
    """By placement id. Raises Unavailable."""
    try:
        packed = live_state.client().get(_key())
    except redis.RedisError as error:
        raise Unavailable(f"Redis does not answer: {error}") from error
    try:
        return _decoder.decode(packed) if isinstance(packed, bytes) else {}
    except msgspec.DecodeError:  # of another version
        return {}


def write(windows: dict[str, Window]) -> None:
    """Raises Unavailable."""
    try:
        live_state.client().set(_key(), msgspec.msgpack.encode(windows), ex=FORGET_AFTER_S)
    except redis.RedisError as error:
        raise Unavailable(f"Redis does not answer: {error}") from error


def _key() -> str:
    return f"{settings.REDIS_PREFIX}:pair_windows"
