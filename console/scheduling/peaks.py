"""The online SM activity that a share must complement: the forecast, over the recent peak.

The recent peak is live state: one packed value in Redis. Without it a peak is the activity of this
moment; without a forecast (`console.forecasts.outlook`) the recent peak alone counts.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import msgspec
import redis
from django.conf import settings

from console import live_state
from console.forecasts import outlook

log = logging.getLogger(__name__)

# A peak that does not come again counts half after this time. Our choice.
HALF_LIFE_S: Final = 300.0
FORGET_AFTER_S: Final = 3_600


class Peaks(msgspec.Struct, frozen=True, array_like=True):
    """Percent of SM activity by GPU id, as they were at `at` (Unix seconds)."""

    at: float
    percent: dict[int, float]


_decoder: Final = msgspec.msgpack.Decoder(Peaks)


def expected(percent_now: Mapping[int, float], at: float) -> dict[int, float]:
    """The online SM activity that the next hour must expect, by GPU id, in percent.

    The upper quantile of the forecast, and never less than the recent peak. Never raises.
    """
    recent, foretold = note(percent_now, at), outlook.peaks()
    return {gpu_id: max(peak, foretold.get(gpu_id, peak)) for gpu_id, peak in recent.items()}


def note(percent_now: Mapping[int, float], at: float) -> dict[int, float]:
    """The recent peak of each GPU given, remembered for next time. Never raises."""
    try:
        known = live_state.client().get(_key())
        peaks = renewed(_decode(known), percent_now, at)
        live_state.client().set(_key(), msgspec.msgpack.encode(Peaks(at, peaks)), ex=FORGET_AFTER_S)
    except redis.RedisError as error:
        log.warning("Recent peaks are not remembered, Redis does not answer: %s", error)
        return dict(percent_now)
    return {gpu_id: peaks[gpu_id] for gpu_id in percent_now}


def renewed(before: Peaks, percent_now: Mapping[int, float], at: float) -> dict[int, float]:
    """Peaks rise at once and decay by half-life; one that has faded is forgotten."""
    decay = 0.5 ** (max(0.0, at - before.at) / HALF_LIFE_S)
    faded = {gpu_id: value * decay for gpu_id, value in before.percent.items()}
    kept = {gpu_id: value for gpu_id, value in faded.items() if value >= 1.0}
    return kept | {gpu_id: max(now, kept.get(gpu_id, 0.0)) for gpu_id, now in percent_now.items()}


def _decode(data: object) -> Peaks:
    if not isinstance(data, bytes):
        return Peaks(0.0, {})
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError:  # of another version
        return Peaks(0.0, {})


def _key() -> str:
    return f"{settings.REDIS_PREFIX}:online_peaks"
