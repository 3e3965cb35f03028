"""Predicted against observed as a drawing: where each point and line stands. Pure.

A square of `SIZE`; right is predicted, up is observed, both between the same round numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SIZE: Final = 320.0
LEFT: Final = 34.0
BOTTOM: Final = 26.0
# Few ticks on a long axis, more on a short one; no axis is shorter than this.
TICKS: Final = (0.1, 0.2, 0.5, 1.0)
MOST_TICKS: Final = 6
SHORTEST: Final = 0.3
MARGIN: Final = 16.0


@dataclass(frozen=True)
class Tick:
    """A value of both axes and where it stands."""

    value: float
    x: float
    y: float


@dataclass(frozen=True)
class Drawing:
    """`points` are (x, y); on the diagonal the prediction came true."""

    points: list[tuple[float, float]]
    ticks: list[Tick]
    left: float = LEFT
    right: float = SIZE - MARGIN
    top: float = MARGIN
    bottom: float = SIZE - BOTTOM


def draw(pairs: Sequence[tuple[float, float]]) -> Drawing:
    """`pairs` are (predicted, observed)."""
    values = [value for pair in pairs for value in pair] or [0.0, 1.0]
    ticks = _ticks(min(values), max(values))
    low, high = ticks[0], ticks[-1]

    def part(value: float) -> float:
        return (value - low) / (high - low)

    return Drawing(
        points=[(_x(part(predicted)), _y(part(observed))) for predicted, observed in pairs],
        ticks=[Tick(value, _x(part(value)), _y(part(value))) for value in ticks],
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers from below `low` to above `high`."""
    wide = max(high, low + SHORTEST)
    step = next((one for one in TICKS if (wide - low) / one <= MOST_TICKS), TICKS[-1])
    first, last = math.floor(low / step + 1e-9), math.ceil(wide / step - 1e-9)
    return [round(number * step, 3) for number in range(first, last + 1)]


def _x(part: float) -> float:
    return round(LEFT + part * (SIZE - MARGIN - LEFT), 1)


def _y(part: float) -> float:
    return round(SIZE - BOTTOM - part * (SIZE - MARGIN - BOTTOM), 1)
