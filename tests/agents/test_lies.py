"""Each lie that a fake node tells is one that a console can tell from the truth."""

from __future__ import annotations

import numpy as np
import pytest

from agents import lies
from agents.wire import packed
from agents.wire.faults import Lie
from agents.wire.messages import PackedTelemetry
from agents.wire.names import SIGNALS
from console.telemetry.plausible import Arrival, fault_of, sift

ROWS = np.full((2, packed.WIDTH), 20.0)
ROWS[:, 0], ROWS[:, 1], ROWS[:, 6] = (0, 1), 1, 1
TRUTH = PackedTelemetry(7, 1e9, len(packed.FIELDS), len(SIGNALS), ROWS.tobytes())


def refused(telemetry):
    if fault := fault_of(telemetry):
        return [fault]
    row_of = np.array([0, 1] + [-1] * 62)
    return [each.reason for each in sift([Arrival(telemetry, row_of, 1e9)])[1]]


@pytest.mark.parametrize("lie", [lie for lie in Lie if lie is not Lie.FROM_THE_PAST])
def test_a_lie_is_refused_and_the_truth_is_not(lie):
    assert refused(TRUTH) == []
    assert refused(lies.told(lie, TRUTH))


def test_telemetry_from_the_past_goes_back_in_number_and_time():
    told = lies.told(Lie.FROM_THE_PAST, TRUTH)
    assert told.number < TRUTH.number
    assert told.sent_at < TRUTH.sent_at
