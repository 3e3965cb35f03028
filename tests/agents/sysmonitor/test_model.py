"""A GPU's guard against its law: whatever it is shown, told and put through, at any moment."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from msgspec.structs import replace

from agents.collectors.base import GpuReading, Origin
from agents.guard import Gpu, Guard, restore
from agents.sysmonitor import machine
from agents.sysmonitor.monitor import ActionKind, Facts, Monitor, Step
from agents.sysmonitor.replay import LocalEvent, NewLimits, Record, WireSample, replay
from agents.wire.messages import GpuInventory
from agents.wire.names import SIGNALS, Signal
from agents.wire.policy import AgentPolicy, Threshold, balanced, demo
from tests.agents.sysmonitor.cast import GPU, SLO_MS
from tests.agents.sysmonitor.law import ARROWS, Law
from tests.agents.sysmonitor.telling import Level, Shown, Telling

BRISK = AgentPolicy(
    1,
    1,
    "brisk",
    {
        Signal.ONLINE_P99: Threshold(1.0, 1.5, 2.0, 3.0),
        Signal.MEMORY: Threshold(92.0, 95.0, 2.0, 3.0, required=True),
        Signal.SM_ACTIVITY: Threshold(85.0, 95.0, 2.0, 4.0, required=True),
        Signal.SM_CLOCK: Threshold(80.0, 65.0, 3.0, 3.0),
        Signal.TEMPERATURE: Threshold(78.0, 84.0, 1.0, 5.0),
    },
    missing_dwell_s=2.0,
    cooldown_s=3.0,
    cooldown_max_s=20.0,
    cooldown_window_s=9.0,
)
AT_ONCE = replace(
    BRISK, version=2, thresholds={it: Threshold(t.lower, t.upper, 0.0, 0.0, t.required)
                                  for it, t in BRISK.thresholds.items()}
)  # fmt: skip
BARE = replace(BRISK, version=3, thresholds={}, memory_reserve_percent=10.0)
POLICIES = [BRISK, AT_ONCE, BARE, demo(1, 4), balanced(1, 5)]
JUDGED = [*BRISK.thresholds, Signal.MEMORY_BANDWIDTH, Signal.PCIE_RX, Signal.POWER]

LEVELS = st.dictionaries(st.sampled_from(JUDGED), st.none() | st.sampled_from(Level), max_size=4)
BLIND = st.just(dict.fromkeys(SIGNALS))
TELLINGS = st.builds(
    Telling,
    LEVELS | LEVELS | LEVELS | BLIND,
    st.sampled_from([60.0, 60.0, 5.0, None]),
    st.sampled_from([300.0, 300.0, 0.0, None]),
    st.sampled_from([0.0] * 12 + [None, 45.0, 13.0, 31.0, 79.0]),
    st.none() | st.integers(0, 4),
)
TICKS = st.integers(1, 5) | st.integers(6, 40)
BEAT = st.sampled_from([0.2] * 6 + [0.1997, 0.204, 0.31, 0.0, 3_600.0, -50.0])
OVERLOADS = [Signal.ONLINE_P99, Signal.SM_ACTIVITY, Signal.SM_CLOCK, Signal.TEMPERATURE]
STUTTER = st.sampled_from([Level.OVER, Level.OVER, Level.OVER, Level.RAISED, Level.WELL, None])
FAULTS: list[dict[str, str]] = [
    {},
    {},
    {"mps_fault": "its MPS server is in FAULT"},
    {"host_memory_short": "the host is short of memory"},
]


class Watch(RuleBasedStateMachine):
    """Every sample is judged twice: by the guard in numbers, by the law in levels."""

    def __init__(self) -> None:
        super().__init__()
        self.gpu = Gpu(GpuInventory(0, "GPU-0", "A100", GPU.memory_bytes), GPU)
        self.guard = Guard(self.gpu, Monitor())
        self.slo_ms: float | None = SLO_MS
        self.law = Law(BRISK)
        self.guard.follow(None, BRISK, self.slo_ms)
        self.facts = Facts(offline_present=True, offline_memory_returned=False)
        self.now, self.ticks, self.beat_s = 1_000.0, 0, 0.2
        self.read_at = self.judged_at = 0.0
        self.told = Telling().shown(BRISK, SLO_MS)
        self.clock_s, self.record, self.moves = 0.0, list[Record](), []

    # --- what happens --------------------------------------------------------------------

    @rule(telling=TELLINGS, ticks=TICKS)
    def show(self, telling: Telling, ticks: int) -> None:
        shown = telling.shown(self.law.policy, self.slo_ms)
        for _ in range(ticks):
            self.tick(shown)

    @rule(ticks=TICKS)
    def rest(self, ticks: int) -> None:
        self.show(Telling(), ticks)

    @rule(signal=st.sampled_from(OVERLOADS), ticks=st.integers(1, 45))
    def overload(self, signal: Signal, ticks: int) -> None:
        self.show(Telling({signal: Level.OVER}), ticks)

    @rule(signal=st.sampled_from(OVERLOADS), times=st.integers(1, 3), ticks=st.integers(0, 90))
    def evict(self, signal: Signal, times: int, ticks: int) -> None:
        """Whole stories: a job, an overload that goes on, memory that returns, and some rest."""
        for _ in range(times):
            self.change(offline_present=True, offline_memory_returned=False, online_present=True)
            self.overload(signal, 30)
            self.end_the_job(returned=True)
            self.rest(5 * (int(self.law.cooldown_s) + 3))
        self.rest(ticks)

    @rule(signal=st.sampled_from(JUDGED), ticks=st.integers(1, 40))
    def startle(self, signal: Signal, ticks: int) -> None:
        """One noisy sample."""
        self.show(Telling({signal: Level.OVER}), 1)
        self.rest(ticks)

    @rule(noise=TELLINGS, times=st.integers(1, 6))
    def flap(self, noise: Telling, times: int) -> None:
        """Bad and good in turn, in some phase with the second."""
        for _ in range(times):
            self.show(noise, 1)
            self.show(Telling(), 3)

    @rule(signal=st.sampled_from(OVERLOADS), levels=st.lists(STUTTER, min_size=2, max_size=9))
    def stutter(self, signal: Signal, levels: list[Level | None]) -> None:
        """One signal, each second another level of it."""
        for level in levels:
            self.show(Telling({signal: level}), 5)

    @rule(signal=st.sampled_from(OVERLOADS), ticks=st.integers(1, 40))
    def vanish(self, signal: Signal, ticks: int) -> None:
        """Over its limit once, then missing."""
        self.show(Telling({signal: Level.OVER}), 1)
        self.show(Telling({signal: None}), ticks)

    @rule(ticks=st.integers(1, 45), lie=st.none() | st.integers(0, 4))
    def go_blind(self, ticks: int, lie: int | None) -> None:
        """Nothing but missing values, or nothing but nonsense."""
        self.show(Telling(dict.fromkeys(SIGNALS), None, None, None, lie), ticks)

    @rule()
    def repeat_full_memory(self) -> None:
        """A source that is late has its last value shown again."""
        self.show(Telling({Signal.MEMORY: Level.OVER}), 1)
        for _ in range(3):
            self.tick(self.told, repeated=True)

    @rule(ticks=st.integers(1, 12))
    def lose_samples(self, ticks: int) -> None:
        """The collector fails: the old sample is asked about again, and nothing may follow."""
        for _ in range(ticks):
            before = self.guard.monitor
            assert self.guard.local(self.facts, self.now).actions == ()
            assert self.guard.monitor is before
            self.beat()

    @rule(beat_s=BEAT)
    def shift_the_clock(self, beat_s: float) -> None:
        self.beat_s = beat_s
        self.tick(self.told)
        self.beat_s = 0.2

    @rule()
    def start_a_job(self) -> None:
        self.change(offline_present=True, offline_memory_returned=False)

    @rule(returned=st.booleans())
    def end_the_job(self, returned: bool) -> None:
        self.change(offline_present=False, offline_memory_returned=returned)

    @rule(present=st.booleans())
    def move_online(self, present: bool) -> None:
        self.change(online_present=present)

    @rule(fault=st.sampled_from(FAULTS))
    def fault(self, fault: dict[str, str]) -> None:
        self.change(**{"mps_fault": "", "host_memory_short": ""} | fault)

    @rule(reason=st.sampled_from([None, "power cap", ""]))
    def lower_the_clock(self, reason: str | None) -> None:
        """The driver has a reason for a low clock, has none, or does not say."""
        self.change(throttled_by=reason)

    @rule(disabled=st.booleans())
    def switch(self, disabled: bool) -> None:
        self.change(disabled_by_person=disabled)

    def change(self, **changes: Any) -> None:
        self.facts = dataclasses.replace(self.facts, **changes)

    @rule(policy=st.sampled_from(POLICIES), slo_ms=st.sampled_from([SLO_MS, SLO_MS, 70.0, None]))
    def order(self, policy: AgentPolicy, slo_ms: float | None) -> None:
        if (policy, slo_ms) != (self.law.policy, self.slo_ms):
            self.law.relimit(policy, slo_ms)
            self.record.append(NewLimits(policy))
        self.slo_ms = slo_ms
        self.guard.follow(None, policy, slo_ms)

    @rule()
    def restart(self) -> None:
        self.guard = restore(self.gpu, self.guard.to_json(), self.now)
        self.guard.follow(None, self.law.policy, self.slo_ms)
        self.law.restart()

    # --- one sample ------------------------------------------------------------------------

    def tick(self, shown: Shown, repeated: bool = False) -> None:
        self.told = shown
        self.read_at = self.read_at if repeated else self.read_at + 1.0
        origins = (Origin("nvml", self.read_at),) * len(SIGNALS)
        self.guard.take(GpuReading(0, shown.values, origins=origins), self.now)
        new = self.read_at != self.judged_at
        self.judged_at = self.read_at
        facts = dataclasses.replace(self.facts, memory_is_new=new)
        was_held, evicted = self.law.held, len(self.law.evictions)
        step = self.guard.local(self.facts, self.now)
        self.law.sample(shown, facts)
        self.record += [LocalEvent(self.now, it.samples, facts) for it in step.transitions]
        self.compare(step, was_held, evicted)
        self.beat()

    def beat(self) -> None:
        self.now += self.beat_s
        self.ticks += 1
        if self.ticks % 5 == 0:
            self.wire()

    def wire(self) -> None:
        was_held, evicted = self.law.held, len(self.law.evictions)
        self.guard.close_second()
        self.clock_s += machine.step_s(self.guard.monitor, self.now)
        step = self.guard.wire(self.facts, self.now)
        self.record.append(
            WireSample(self.clock_s, self.guard.sample, self.guard.worst, self.facts)
        )
        self.law.second(self.facts, self.now)
        self.compare(step, was_held, evicted)
        self.check_figures()

    # --- what must be so ---------------------------------------------------------------------

    def compare(self, step: Step, was_held: bool, evicted: int) -> None:
        """The same state, the same hold, the same evictions for the same reason."""
        law, guard = self.law, self.guard
        for move in step.transitions:
            assert move.to_state in ARROWS[move.from_state]
        self.moves += step.transitions
        assert guard.state is law.state, guard.monitor.story
        assert guard.monitor.held is law.held, guard.monitor.story
        actions = [it for it in step.actions if it.kind is not ActionKind.PROPOSE]
        evictions = [(it.origin, it.at_once) for it in actions if it.kind is ActionKind.EVICT]
        assert evictions == law.evictions[evicted:], guard.monitor.story
        holds = [it.kind for it in actions if it.kind is not ActionKind.EVICT]
        assert holds == self.expected(was_held)
        assert guard.monitor.cooldown_s == law.cooldown_s

    def expected(self, was_held: bool) -> list[ActionKind]:
        """A freeze and a thaw are told once, where there is somebody to tell."""
        if was_held is self.law.held or not self.facts.offline_present:
            return []
        return [ActionKind.FREEZE if self.law.held else ActionKind.THAW]

    def check_figures(self) -> None:
        """Headroom is None where nothing that is judged is read, and 0 where a limit is crossed."""
        percent, signal = self.guard.headroom()
        last = self.law.newest.last
        shown = {it: level for it, level in last.items() if level is not None}
        over = Level.OVER in shown.values()
        assert (percent is None) == (not shown)
        assert (percent == 0.0) == over == self.guard.pressing(self.facts)
        assert signal is None or signal in shown
        assert set(self.guard.missing()) == last.keys() - shown.keys()

    def teardown(self) -> None:
        """The record alone leads to the same states."""
        again = replay(Monitor(), self.record, BRISK)
        assert list(again.transitions) == self.moves
        here, there = self.guard.monitor, again.monitor
        assert (there.state, there.dwells) == (here.state, here.dwells)


def is_thorough() -> bool:
    return settings.default.max_examples > 100


# Explaining a failure takes far longer than finding it.
Watch.TestCase.settings = settings(
    max_examples=settings.default.max_examples if is_thorough() else 25,
    stateful_step_count=25,
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
)
TestGuardKeepsTheLaw = pytest.mark.thorough(
    pytest.mark.timeout(0 if is_thorough() else 60)(Watch.TestCase)
)
