"""What SysMonitor would remember had it been asked in every second that was skipped. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from agents.sysmonitor.monitor import Monitor
from agents.sysmonitor.thresholds import Dwell
from agents.wire.names import Signal

# Steps over, raised, clear, settled, recovered, as `prefilter.Runs.of` tells them.
Lengths = tuple[int, int, int, int, int]


def caught_up(
    monitor: Monitor, runs: Mapping[Signal, Lengths], steps_s: NDArray[np.float64], now: float
) -> Monitor:
    """The monitor after the steps that `prefilter.skippable` let skip, of `steps_s` each, the last
    of them at `now`. Seconds are added up one by one, as the machine does, to the last digit."""
    dwells = {
        signal: _caught_up(monitor.dwells[signal], lengths, steps_s)
        for signal, lengths in runs.items()
    }
    return replace(
        monitor,
        dwells=dwells,
        state_s=_sum(monitor.state_s, steps_s),
        quiet_s=_sum(monitor.quiet_s, steps_s),
        blind_n=0,
        slo_s=0.0,
        seen_at=now,
    )


def _caught_up(dwell: Dwell, lengths: Lengths, steps_s: NDArray[np.float64]) -> Dwell:
    over, raised, clear, settled, recovered = lengths
    return Dwell(
        *_run(dwell.over_s, dwell.over_n, over, steps_s),
        *_run(dwell.raised_s, dwell.raised_n, raised, steps_s),
        *_run(dwell.clear_s, dwell.clear_n, clear, steps_s),
        *_run(dwell.settled_s, dwell.settled_n, settled, steps_s),
        *_run(dwell.recovered_s, dwell.recovered_n, recovered, steps_s),
        present=True,
        seen_over=over > 0,
    )


def _run(run_s: float, run_n: int, length: int, steps_s: NDArray[np.float64]) -> tuple[float, int]:
    """Unbroken through all that was skipped, it goes on; else its first sample opened it."""
    if length == 0:
        return 0.0, 0
    if length == len(steps_s) and run_n:
        return _sum(run_s, steps_s), run_n + length
    return _sum(0.0, steps_s[len(steps_s) - length + 1 :]), length


def _sum(start: float, steps_s: NDArray[np.float64]) -> float:
    """From left to right: `accumulate` adds in order, where `sum` adds in pairs."""
    return float(np.add.accumulate(np.concatenate(((start,), steps_s)))[-1])
