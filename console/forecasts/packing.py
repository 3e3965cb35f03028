"""Percent as bytes: steps of half a percent, a value of its own for what is missing. Pure."""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from console.forecasts.series import Floats

Bytes: TypeAlias = NDArray[np.uint8]

MISSING: Final = 255
_STEP: Final = 0.5
_MOST: Final = 200


def packed(percent: Floats) -> Bytes:
    """NaN → 255. Only what is below a quarter of a percent becomes 0."""
    steps = np.clip(np.rint(percent / _STEP), 0, _MOST)
    return np.where(np.isnan(percent), MISSING, steps).astype(np.uint8)


def unpacked(steps: Bytes) -> Floats:
    return np.where(steps == MISSING, np.nan, steps * _STEP).astype(np.float32)
