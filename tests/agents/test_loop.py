"""Which ticks of the beat a process is awake for."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agents.loop import _until_next


def nodes(*stopping):
    berths = {
        f"node-{at}": SimpleNamespace(agent=SimpleNamespace(is_stopping=each))
        for at, each in enumerate(stopping)
    }
    return SimpleNamespace(berths=berths, is_at_rest=False)


def awake(nodes, ticks=20):
    """The ticks that are not slept through."""
    tick, seen = 0, []
    while tick < ticks:
        seen.append(tick)
        tick += _until_next(nodes, tick)
    return seen


@pytest.mark.parametrize(
    ("stopping", "ticks"),
    [
        ((False,), [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]),
        ((False, False), [0, 1, 2, 4, 6, 8, 10, 11, 12, 14, 16, 18]),
        ((False,) * 10, list(range(20))),
        ((True,), list(range(20))),
        ((False, True), list(range(20))),
    ],
    ids=["one node", "two nodes", "ten nodes", "a stop", "a stop on one of two"],
)
def test_a_tick_in_which_nothing_is_to_be_done_is_slept_through(stopping, ticks):
    assert awake(nodes(*stopping)) == ticks


def test_a_node_that_is_down_keeps_nobody_awake():
    assert awake(
        SimpleNamespace(berths={"node-0": SimpleNamespace(agent=None)}, is_at_rest=False), 4
    ) == [0, 2]
