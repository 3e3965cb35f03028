"""How far the forecasts that were made were from what came. Pure (numpy)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from console.forecasts.series import AHEAD, HORIZONS, Floats

# An hour of forecasts that are judged; fewer say nothing.
LEAST: Final = AHEAD


@dataclass(frozen=True)
class Score:
    """Of one horizon. `error_points`: mean absolute error, in percent of a GPU; `below`: the part
    of what came that was not above the high quantile. Both None while `n` is below `LEAST`."""

    n: int
    error_points: float | None
    below: float | None


def scores(percent: Floats, middle: Floats, high: Floats) -> list[Score]:
    """One a horizon. `percent` [t]: what came, bin by bin without holes, NaN where unknown;
    `middle` and `high` [t, len(HORIZONS)]: what was foretold when bin t had ended."""
    return [_score(percent[h:], middle[:-h, i], high[:-h, i]) for i, h in enumerate(HORIZONS)]


def _score(came: Floats, middle: Floats, high: Floats) -> Score:
    known = np.isfinite(came) & np.isfinite(middle) & np.isfinite(high)
    n = int(known.sum())
    if n < LEAST:
        return Score(n, None, None)
    error = float(np.abs(came[known] - middle[known]).mean())
    return Score(n, error, float((came[known] <= high[known]).mean()))
