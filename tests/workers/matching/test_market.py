"""What is no market is said at once, and why."""

from __future__ import annotations

import numpy as np
import pytest

from workers.matching.market import MOST_WORTH, Market, Slots

ONE = np.ones(1, np.int64)


@pytest.mark.parametrize(
    ("worth", "rows", "why"),
    [
        (np.array([[np.nan]]), ONE, "whole numbers"),
        (np.array([1]), ONE, "2 dimensions"),
        (np.array([[1, 2]]), ONE, r"worth is \(1, 2\)"),
        (np.array([[MOST_WORTH + 1]]), ONE, "worth more"),
        (np.array([[-(2**31)]], np.int32), ONE, "less than its negative"),
        (np.array([[1]]), -ONE, "fewer than 0 GPUs"),
        (np.array([[1]]), np.array([1.0]), "whole numbers"),
    ],
)
def test_worths_and_rows_out_of_range(worth, rows, why):
    with pytest.raises(ValueError, match=why):
        Market(worth, rows, Slots.plain(ONE))


@pytest.mark.parametrize(
    ("capacity", "extra", "why"),
    [
        ([-1], [], "below 0"),
        ([2], [1], "2 places, but 1"),
        ([2], [1, 2], "rise"),
        ([0, 2, 0], [1, 2], "rise"),
        ([1], [-1], "below 0"),
        ([1], [MOST_WORTH + 1], "above"),
    ],
)
def test_places_that_are_none(capacity, extra, why):
    with pytest.raises(ValueError, match=why):
        Slots(np.array(capacity, np.int64), np.array(extra, np.int64))


def test_extras_may_rise_from_one_class_to_the_next():
    slots = Slots(np.array([1, 0, 2, 0]), np.array([1, 5, 3]))
    assert slots.offset.tolist() == [0, 1, 1, 3, 3]
