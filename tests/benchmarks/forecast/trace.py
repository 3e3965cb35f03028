"""The public trace, walked forward: at each bin only what came before is known."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from console.forecasts.series import AHEAD, HORIZONS, QUANTILE, Floats, Past
from workers.reallocation.forecast import band, forecast

FILE: Final = "traces/genai_pod_gpu_util_5min_first12h.csv"
# Two hours to begin with: the longest horizon has been seen come true for an hour then.
WARM_UP: Final = 24
# The windows of the moving means, in bins: half an hour, one and two.
WINDOWS: Final = (6, 12, 24)


@dataclass
class Score:
    """Sums over all that was foretold for one horizon."""

    count: int = 0
    error: float = 0.0
    pinball: float = 0.0
    below: int = 0

    def add(self, came: Floats, middle: Floats, high: Floats) -> None:
        known = np.isfinite(came) & np.isfinite(high)
        over = (came - high)[known].astype(np.float64)
        self.count += int(known.sum())
        self.error += float(np.abs(came - middle)[known].sum(dtype=np.float64))
        self.pinball += float(np.maximum(QUANTILE * over, (QUANTILE - 1) * over).sum())
        self.below += int((over <= 0).sum())

    def means(self) -> dict[str, float]:
        figures = {"mae": self.error, "pinball": self.pinball, "coverage": self.below}
        return {name: value / self.count for name, value in figures.items()}


Scores = list[Score]


def read(folder: Path) -> Floats:
    """[pods, bins]: GPU utilisation in percent; NaN in the gaps. Raises OSError."""
    with (folder / FILE).open(encoding="utf-8") as lines:
        _, *rows = csv.reader(lines)
    return np.array([[float(cell or "nan") for cell in row[1:]] for row in rows], np.float32).T


def compare(y: Floats) -> dict[str, Any]:
    """By method and horizon: mean absolute error and pinball loss in points, and coverage.

    All methods get the same band, so that the quantiles differ by what is foretold alone.
    """
    plain = {"last_value": _last_value(y)}
    plain |= {f"moving_mean_{5 * width}min": _moving_mean(y, width) for width in WINDOWS}
    scores = {name: [Score() for _ in HORIZONS] for name in ("forecast", *plain)}
    for now in range(WARM_UP, y.shape[1]):
        known = y[:, : now + 1]
        told = forecast(_past(known))
        _add(scores["forecast"], y, now, told.middle, told.high)
        for name, series in plain.items():
            made = np.repeat(series[:, : now + 1, None], len(HORIZONS), axis=2)
            _add(scores[name], y, now, *band(known, made))
    return {name: [score.means() for score in of] for name, of in scores.items()}


def _add(scores: Scores, y: Floats, now: int, middle: Floats, high: Floats) -> None:
    for place, h in enumerate(HORIZONS):
        if now + h < y.shape[1]:
            scores[place].add(y[:, now + h], middle[:, place], high[:, place])


def _past(known: Floats) -> Past:
    """Twelve hours know no season; all pods belong to one service."""
    pods, times = known.shape
    none = np.empty((pods, 0), np.float32)
    hours = np.zeros(times + AHEAD, np.float32)
    return Past(known, none, hours, hours[:0], np.zeros(pods, np.int64))


def _last_value(y: Floats) -> Floats:
    """[pods, bins]: the last that was measured, however long ago."""
    places = np.where(np.isfinite(y), np.arange(y.shape[1]), 0)
    return np.take_along_axis(y, np.maximum.accumulate(places, axis=1), axis=1)


def _moving_mean(y: Floats, width: int) -> Floats:
    """[pods, bins]: of what was measured in the last `width` bins; NaN where nothing was."""
    known = np.isfinite(y)
    total = np.cumsum(np.where(known, y, 0.0), axis=1, dtype=np.float64)
    count = np.cumsum(known, axis=1, dtype=np.float64)
    total[:, width:] -= total[:, :-width].copy()
    count[:, width:] -= count[:, :-width].copy()
    return np.where(count > 0, total / np.maximum(count, 1), np.nan).astype(np.float32)
