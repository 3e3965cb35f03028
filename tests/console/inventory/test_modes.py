"""Which mode holds, and which GPUs stay out of it as the control."""

from __future__ import annotations

import itertools

import pytest

from agents.wire.names import SHARING_MODES
from console.inventory import modes


@pytest.mark.parametrize(("one", "other"), list(itertools.product(SHARING_MODES, repeat=2)))
def test_the_lower_of_two_modes_holds(one, other):
    held = modes.lower(one, other)
    assert held in (one, other)
    assert SHARING_MODES.index(held) == min(SHARING_MODES.index(m) for m in (one, other))


@pytest.mark.parametrize(
    ("gpus", "percent", "count"),
    [(0, 3, 0), (7, 3, 0), (8, 3, 1), (32, 3, 1), (128, 3, 4), (6212, 3, 186), (128, 0, 0)],
)
def test_three_percent_are_held_back_and_at_least_one_of_eight(gpus, percent, count):
    assert modes.holdback_count(gpus, percent) == count


def test_the_choice_depends_on_the_seed_and_on_nothing_else():
    ids = list(range(100))
    chosen = modes.choose(ids, 3, "web")
    assert chosen == modes.choose(ids[::-1], 3, "web")
    assert chosen != modes.choose(ids, 3, "batch")


def test_more_than_there_are_cannot_be_chosen():
    assert modes.choose([1, 2], 5, "web") == {1, 2}
    assert modes.choose([1, 2], -1, "web") == set()
