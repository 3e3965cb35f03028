"""Generated load with a day and a week in it, whose truth is known."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from console.forecasts.series import AHEAD, BINS, HORIZONS, Floats, Forecast, Past
from workers.reallocation.forecast import forecast

GPUS: Final = 40
WEEKS: Final = 2
NOISE: Final = 4.0
GAPS: Final = 0.1
PER_HOUR: Final = 12
PER_DAY: Final = 24 * PER_HOUR
# How often a forecast is made in the day that is judged: every three quarters of an hour.
EVERY: Final = 9


def truth(bins: Floats, weekend: float) -> Floats:
    """Percent: a calm night, a busy afternoon, and `weekend` times as busy on its two days."""
    hour = bins / PER_HOUR
    busy = np.where((hour // 24) % 7 >= 5, weekend, 1.0)
    return (20 + 25 * busy * np.exp(-(((hour % 24 - 14) / 3.5) ** 2))).astype(np.float32)


def measured(told: Floats, rng: np.random.Generator) -> Floats:
    """[GPUS, bins]: with noise and gaps."""
    y = np.clip(told + rng.normal(0, NOISE, (GPUS, len(told))), 0, 100).astype(np.float32)
    y[rng.random(y.shape) < GAPS] = np.nan
    return y


def past(y: Floats, now: int) -> Past:
    """What is known at the end of bin `now` of series that began on a Monday at midnight."""
    first = max(0, now + 1 - BINS)
    whole = (now + 1) // PER_HOUR
    known = np.isfinite(y[:, : whole * PER_HOUR]).reshape(len(y), whole, PER_HOUR)
    total = np.nan_to_num(y[:, : whole * PER_HOUR]).reshape(len(y), whole, PER_HOUR).sum(axis=2)
    hours = np.where(known.any(axis=2), total / np.maximum(known.sum(axis=2), 1), np.nan)
    at = (np.arange(first, now + 1 + AHEAD) + 0.5) / PER_HOUR % 168
    return Past(
        y[:, first : now + 1],
        hours.astype(np.float32),
        at.astype(np.float32),
        ((np.arange(whole) + 0.5) % 168).astype(np.float32),
        np.full(len(y), -1),
    )


def compare(weekend: float, days: int, seed: int) -> dict[str, Any]:
    """The day after `days`: distance from the truth, that of the last hour's mean, coverage."""
    rng = np.random.default_rng(seed)
    bins = np.arange((days + 1) * PER_DAY + AHEAD, dtype=np.float32)
    told = truth(bins, weekend)
    y = measured(told, rng)
    moments = range(days * PER_DAY, (days + 1) * PER_DAY, EVERY)
    made = [(now, forecast(past(y, now))) for now in moments]
    mean = [np.nanmean(y[:, now + 1 - PER_HOUR : now + 1], axis=1) for now in moments]
    return {
        "days": days,
        "truth_mae": [_off(told, made, place) for place, _ in enumerate(HORIZONS)],
        "moving_mean_mae": [
            float(
                np.mean(
                    [
                        np.abs(told[now + h] - one).mean()
                        for (now, _), one in zip(made, mean, strict=True)
                    ]
                )
            )
            for h in HORIZONS
        ],
        "coverage": [_covered(y, made, place) for place, _ in enumerate(HORIZONS)],
    }


def _off(told: Floats, made: list[tuple[int, Forecast]], place: int) -> float:
    h = HORIZONS[place]
    return float(
        np.mean([np.abs(told[now + h] - one.middle[:, place]).mean() for now, one in made])
    )


def _covered(y: Floats, made: list[tuple[int, Forecast]], place: int) -> float:
    h = HORIZONS[place]
    pairs = [(y[:, now + h], one.high[:, place]) for now, one in made]
    came, high = (np.concatenate(column) for column in zip(*pairs, strict=True))
    known = np.isfinite(came)
    return float((came <= high)[known].mean())
