"""What a driver does where its documentation leaves it open. Found out, never a failure."""

from __future__ import annotations

from tests.gpu.figure import Figure
from tests.gpu.machine import Machine

DEINITIALIZED = 4
BATCH = ("record_ns", "record_ns", "query_ns", "elapsed_ns")  # what events around a launch cost


def habits(machine: Machine) -> Figure:
    """The real driver alone, without xCUDA."""
    _ = machine.device
    values = {name: value for line in machine.ask("habits") for name, value in line.items()}
    batch_us = sum(values[it] for it in BATCH) / 1e3
    shut = "has" if values["at_exit"] == DEINITIALIZED else "has not"
    waits = "can" if values["wait_beside_capture"] == 0 else "cannot"
    return Figure(
        f"events around a batch cost {batch_us:.1f} µs; at exit it {shut} shut down before older "
        f"handlers; a context {waits} be waited for beside a capture",
        values,
    )
