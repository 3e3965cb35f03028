from __future__ import annotations

import pytest

from agents.kubernetes import pace
from agents.kubernetes.pace import Ending, Next

ROWS = [
    (Ending.CLOSED, 0, None, Next(anew=False, wait_s=0.0, failures=0)),
    (Ending.CLOSED, 9, None, Next(anew=False, wait_s=0.0, failures=0)),
    (Ending.TOO_SOON, 0, None, Next(anew=False, wait_s=1.0, failures=1)),
    (Ending.TOO_OLD, 0, None, Next(anew=True, wait_s=0.0, failures=1)),
    (Ending.TOO_OLD, 1, None, Next(anew=True, wait_s=2.0, failures=2)),
    (Ending.REFUSED, 0, None, Next(anew=False, wait_s=1.0, failures=1)),
    (Ending.REFUSED, 3, 7.0, Next(anew=False, wait_s=8.75, failures=4)),
    (Ending.REFUSED, 0, 0.0, Next(anew=False, wait_s=1.25, failures=1)),
    (Ending.REFUSED, 0, 86_400.0, Next(anew=False, wait_s=60.0, failures=1)),
    (Ending.BROKEN, 4, None, Next(anew=False, wait_s=16.0, failures=5)),
    (Ending.BROKEN, 500, None, Next(anew=False, wait_s=60.0, failures=501)),
    (Ending.NONSENSE, 0, None, Next(anew=True, wait_s=1.0, failures=1)),
]


@pytest.mark.parametrize(("ending", "failures", "asked_s", "expected"), ROWS)
def test_what_follows_an_ending(ending, failures, asked_s, expected):
    assert pace.after(ending, failures, 1.0, asked_s) == expected


def test_nodes_do_not_come_back_as_one():
    waits = {pace.back_off_s(3, spread / 10) for spread in range(11)}
    assert len(waits) == 11
    assert min(waits) == 4.0
