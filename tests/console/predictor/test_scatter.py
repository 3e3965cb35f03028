"""The drawing of predicted against observed."""

from __future__ import annotations

import pytest

from console.predictor import scatter


@pytest.mark.parametrize(
    ("values", "first", "last"),
    [
        ((0.41, 0.66), 0.4, 0.8),
        ((0.0, 1.0), 0.0, 1.0),
        ((0.3, 1.31), 0.2, 1.4),
        ((0.5, 0.5), 0.5, 0.8),
    ],
)
def test_both_axes_run_between_the_same_round_numbers(values, first, last):
    drawing = scatter.draw([values])
    assert (drawing.ticks[0].value, drawing.ticks[-1].value) == (first, last)
    assert 3 <= len(drawing.ticks) <= 8
    for tick, (x, y) in (
        (drawing.ticks[0], (drawing.left, drawing.bottom)),
        (drawing.ticks[-1], (drawing.right, drawing.top)),
    ):
        assert (tick.x, tick.y) == (x, y)


def test_what_came_true_stands_on_the_diagonal():
    drawing = scatter.draw([(0.2, 0.2), (0.9, 0.9), (0.9, 0.4)])
    across = [(x - drawing.left) / (drawing.right - drawing.left) for x, _ in drawing.points]
    up = [(drawing.bottom - y) / (drawing.bottom - drawing.top) for _, y in drawing.points]
    assert across[:2] == pytest.approx(up[:2], abs=0.01)
    assert up[2] < across[2]


def test_nothing_to_draw_is_an_empty_square():
    assert scatter.draw([]).points == []
