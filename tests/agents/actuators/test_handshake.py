from __future__ import annotations

from agents.actuators import handshake
from agents.actuators.handshake import Handshake


def test_a_process_that_comes_under_xcuda_in_time_is_fine():
    first = handshake.step(Handshake(), {1, 2}, {1}, 10.0)
    second = handshake.step(first, {1, 2}, {1, 2}, 12.0)

    assert first.coverage({1}) == (1, 2)
    assert second.coverage({1, 2}) == (2, 2)
    assert second.overdue(99.0, 5.0) == ""


def test_a_process_that_never_does_is_named_after_the_deadline():
    seen = handshake.step(Handshake(), {7}, set(), 10.0)
    again = handshake.step(seen, {7}, set(), 14.0)

    assert again.overdue(14.9, 5.0) == ""
    assert "process 7 uses CUDA and never came under xCUDA" in again.overdue(15.0, 5.0)


def test_one_that_went_is_forgotten():
    seen = handshake.step(Handshake(), {7}, set(), 10.0)

    assert handshake.step(seen, set(), set(), 16.0).overdue(16.0, 5.0) == ""
