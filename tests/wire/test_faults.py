"""A fault that would leave the simulated world without sense is refused."""

from __future__ import annotations

import msgspec
import pytest

from agents.wire import faults


@pytest.mark.parametrize(
    "fault",
    [
        faults.TrafficSpike(factor=-5),
        faults.TrafficSpike(factor=1e308),
        faults.TrafficSpike(duration_s=1e308),
        faults.KillNode("node-01", down_s=-1),
        faults.CutConsole("node-01", duration_s=0),
        faults.GpuError("node-01", 0, xid=-7),
    ],
)
def test_a_fault_beyond_all_reason_is_refused(fault):
    with pytest.raises(msgspec.ValidationError):
        faults.decode_fault(faults.encode(fault))


@pytest.mark.parametrize("fault", [faults.TrafficSpike(), faults.KillNode("node-01", 30.0)])
def test_a_fault_of_the_panel_is_taken(fault):
    assert faults.decode_fault(faults.encode(fault)) == fault
