"""Predicted against observed as a drawing: where each point and line stands. Pure.

A square of `SIZE`; right is predicted, up is observed, both 0 to the round number above the most.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SIZE: Final = 320.0
LEFT: Final = 34.0
BOTTOM: Final = 26.0
TICK: Final = 0.2
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
    most = max([1.0, *(value for pair in pairs for value in pair)])
    top = math.ceil(most / TICK - 1e-9) * TICK
    ticks = [n * TICK for n in range(round(top / TICK) + 1)]
    return Drawing(
        points=[(_x(predicted / top), _y(observed / top)) for predicted, observed in pairs],
        ticks=[Tick(round(value, 3), _x(value / top), _y(value / top)) for value in ticks],
    )


def _x(part: float) -> float:
    return round(LEFT + max(0.0, part) * (SIZE - MARGIN - LEFT), 1)


def _y(part: float) -> float:
    return round(SIZE - BOTTOM - max(0.0, part) * (SIZE - MARGIN - BOTTOM), 1)
