"""Where the prefilter lets a step of SysMonitor be skipped, nobody can tell that it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.collectors.base import GpuReading
from agents.contention.prefilter import judge, skippable
from agents.crowd.roll import SENSE, Roll
from agents.guard import Gpu, Guard
from agents.sysmonitor.monitor import Facts, Monitor
from agents.sysmonitor.signals import GpuFacts
from agents.wire import policy
from agents.wire.messages import DesiredGpu, GpuInventory
from agents.wire.names import SIGNALS, SharingMode, Signal

MEMORY = 80 << 30
FACTS = GpuFacts(MEMORY, 400.0, 1_410.0, 25e9)
GPU = Gpu(GpuInventory(0, "GPU-1", "A100", MEMORY), FACTS)
POLICIES = [policy.balanced(1, 1), policy.conservative(2, 1), policy.demo(3, 1)]
# Values below, near, between and beyond limits; those that come and go; those that cannot be true.
CHOICES = {
    Signal.GPU_UTIL: (60.0, 9.0, 70.0, None),
    Signal.SM_ACTIVITY: (40.0, 83.0, 84.5, 88.0, 99.0, 0.0, None, 4_294_967_295.0),
    Signal.SM_OCCUPANCY: (30.0,),
    Signal.MEMORY_BANDWIDTH: (20.0, 78.0, 85.0, 95.0),
    Signal.SM_CLOCK: (1_400.0, 1_100.0, 1_200.0, 800.0),
    Signal.MEMORY: (20.0 * (1 << 30), 0.915 * MEMORY, 0.93 * MEMORY, 1.5 * MEMORY),
    Signal.PCIE_RX: (1e9, 15.5e9, 30e9),
    Signal.TEMPERATURE: (60.0, 77.5, 79.0, 85.0),
    Signal.POWER: (250.0, 366.0, 390.0, 400.0),
    Signal.XID: (0.0, 0.0, 0.0, 31.0, 45.0, None),
    Signal.ONLINE_P99: (60.0, 95.0, 120.0, 200.0, None),
    Signal.ONLINE_QPS: (200.0, 0.0, None),
}
# A GPU that is at ease most of the time, and for long.
seconds = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(SIGNALS), st.integers(0, 7), max_size=2),
        st.integers(1, 14),
        st.sampled_from((1.0, 1.0, 0.9, 1.1, 3.0)),
        st.sampled_from((True, True, True, False)),
    ),
    max_size=12,
)


def sample(strange):
    found = {
        signal: choices[strange.get(signal, 0) % len(choices)]
        for signal, choices in CHOICES.items()
    }
    return tuple(found[signal] for signal in SIGNALS)


class Watched:
    """One GPU under a guard that is asked every second, and one that is asked where it must be."""

    def __init__(self, chosen, slo_p99_ms):
        self.plain, self.other = Guard(GPU, Monitor()), Guard(GPU, Monitor())
        target = DesiredGpu(0, SharingMode.ENFORCE, "p")
        for guard in (self.plain, self.other):
            guard.follow(target, chosen, slo_p99_ms)
        self.roll, self.steps, self.waits, self.skipped = Roll([FACTS], [0]), [], False, 0
        self.at = 0

    def second(self, values, online, now, step_s):
        facts = Facts(online_present=online)
        moves = self._ask(self.plain, values, facts, now)
        judgement, quiet = self._judge(values, online)
        sleeps = bool(quiet[0]) and self.at > 0
        assert not (sleeps and moves.transitions)
        assert not (sleeps and moves.actions)
        if not sleeps:
            self.wake(now - step_s)
        self._note(judgement, step_s)
        if sleeps:
            self.waits, self.skipped = True, self.skipped + 1
            return
        assert self._ask(self.other, values, facts, now).transitions == moves.transitions
        assert self.other.monitor == self.plain.monitor
        self.roll.read(0, self.other)
        self.at = self.roll.runs.step

    def wake(self, now):
        if self.waits:
            steps_s = np.array(self.steps[self.at :])
            self.roll.wake(0, self.other, steps_s, now)
            self.waits = False

    def _ask(self, guard, values, facts, now):
        guard.take(GpuReading(0, values, online_processes=int(facts.online_present)), now)
        guard.close_second()
        step = guard.wire(facts, now)
        guard.degraded = guard.missing()
        return step

    def _judge(self, values, online):
        row = np.array([[np.nan if value is None else value for value in values]])
        present = np.array([online]) if self.roll.told[0] else np.array([True])
        judgement = judge(row, present, self.roll.ground, SENSE)
        roll = self.roll
        return judgement, skippable(roll.state, roll.at_peace, roll.judged, judgement)

    def _note(self, judgement, step_s):
        self.roll.runs.note(judgement)
        self.steps.append(step_s if step_s <= 2.0 else 0.0)


@pytest.mark.thorough
@given(st.sampled_from(POLICIES), st.sampled_from((None, 100.0)), seconds)
def test_a_monitor_that_slept_remembers_what_it_would_have_seen(chosen, slo_p99_ms, story):
    check(chosen, slo_p99_ms, story)


def check(chosen, slo_p99_ms, story):
    watched, now = Watched(chosen, slo_p99_ms), 100.0
    for strange, lasts, step_s, online in story:
        for _ in range(lasts):
            now += step_s
            watched.second(sample(strange), online, now, step_s)
    watched.wake(now)
    assert watched.other.monitor == watched.plain.monitor


def test_a_gpu_at_ease_is_asked_once_in_its_life():
    watched = Watched(POLICIES[0], 100.0)
    for second in range(1, 101):
        watched.second(sample({}), True, 100.0 + second, 1.0)
    assert watched.skipped > 90


@given(st.dictionaries(st.sampled_from(SIGNALS), st.integers(0, 7), max_size=6), st.booleans())
@settings(max_examples=100, deadline=None)
def test_values_and_headroom_are_those_of_the_guard(strange, online):
    watched = Watched(POLICIES[0], 100.0)
    facts = Facts(online_present=online)
    watched._ask(watched.other, sample(strange), facts, 101.0)
    watched.roll.read(0, watched.other)
    judgement, _ = watched._judge(sample(strange), online)
    told = watched.other.telemetry()
    row = tuple(None if value != value else value for value in judgement.values[0].tolist())
    assert row == told.last == told.worst
    headroom = judgement.headroom_percent[0]
    assert (None if np.isnan(headroom) else headroom) == told.headroom_percent
    nearest = judgement.nearest[0]
    assert (None if np.isnan(nearest) else nearest) == told.nearest_signal
