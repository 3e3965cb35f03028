"""Whatever numbers a GPU tells, and however it lies, the promises of the machine hold.

`test_model` holds it to far more, with numbers chosen for what they mean.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from agents.sysmonitor.machine import pressing
from agents.sysmonitor.monitor import ActionKind, Facts, from_dict, to_dict
from agents.sysmonitor.signals import BOUNDS
from agents.sysmonitor.transitions import TRANSITIONS
from agents.wire.names import SIGNALS, GpuState
from tests.agents.sysmonitor.cast import ALONE, POLICY, SHARED, Bench, healthy, seen, values

pytestmark = pytest.mark.thorough
# A history is some hundred samples.
MODEST = settings(max_examples=settings.default.max_examples // 4)

ANYTHING = st.none() | st.floats(allow_nan=True, allow_infinity=True, width=32)
NONSENSE = st.sampled_from([-1.0, 4_294_967_295.0, 9.2e18, float("nan"), float("inf"), None])


def sample_of(strategy):
    return st.tuples(*[strategy for _ in SIGNALS])


def plausible_sample():
    return st.tuples(*[st.none() | st.floats(*BOUNDS[signal]) for signal in SIGNALS])


QUIET = st.just(values())
OVER = st.sampled_from(
    [values(online_p99=70.0), values(sm_activity=99.0), values(memory=8.3e10), values(xid=31.0)]
)
FACTS = st.sampled_from(
    [
        SHARED,
        SHARED,
        SHARED,
        ALONE,
        Facts(offline_present=True, mps_fault="the MPS server is in FAULT"),
        Facts(offline_present=True, online_present=False),
        Facts(offline_present=False, offline_memory_returned=False),
        Facts(offline_present=True, disabled_by_person=True),
    ]
)
# A history: what the GPU shows, for how many local samples, and what else is true meanwhile.
SPELL = st.tuples(
    QUIET | OVER | plausible_sample() | sample_of(ANYTHING), st.integers(1, 40), FACTS
)
HISTORY = st.lists(SPELL, min_size=1, max_size=12)


def live(history) -> Bench:
    bench = Bench()
    for sample, times, facts in history:
        bench.facts = facts
        for _ in range(times):
            bench.tick(sample)
    return bench


@MODEST
@given(HISTORY)
def test_every_move_is_in_the_table_and_starts_where_the_last_one_ended(history):
    bench = live(history)
    moves = {(state, target) for (state, _), target in TRANSITIONS.items()}
    here = GpuState.INIT
    for moved in bench.transitions:
        assert moved.from_state is here
        assert (moved.from_state, moved.to_state) in moves
        here = moved.to_state
    assert bench.state is here


@MODEST
@given(HISTORY, OVER)
def test_a_sample_over_a_limit_leaves_the_job_held(history, over):
    bench = live(history)
    bench.facts = SHARED
    step = bench.tick(over)
    if pressing(seen_again(over), POLICY, SHARED):
        assert step.monitor.held


def seen_again(sample):
    return seen(**{str(signal): value for signal, value in zip(SIGNALS, sample, strict=True)})


@given(sample_of(ANYTHING) | plausible_sample(), st.integers(0, 25))
def test_one_noisy_sample_never_evicts(noise, position):
    no_xid = (*noise[:9], 0.0, *noise[10:])
    bench = healthy().run(position / 5)
    bench.tick(no_xid)
    bench.run(10)
    assert bench.evictions == []
    assert bench.state is GpuState.HEALTHY
    assert bench.done in ([], [ActionKind.FREEZE, ActionKind.THAW])


@given(st.lists(sample_of(NONSENSE), min_size=5, max_size=100))
def test_nonsense_never_evicts(samples):
    bench = healthy()
    for sample in samples:
        bench.tick(sample)
    assert bench.evictions == []


@MODEST
@given(HISTORY)
def test_nothing_thaws_that_was_not_frozen(history):
    frozen = 0
    for kind in live(history).done:
        frozen += (kind is ActionKind.FREEZE) - (kind is ActionKind.THAW)
        assert frozen >= 0


@MODEST
@given(HISTORY, HISTORY)
def test_a_restart_changes_no_decision_but_by_the_time_away(before, after):
    bench = live(before)
    kept = json.loads(json.dumps(to_dict(bench.monitor)))
    restarted = Bench(monitor=from_dict(kept, bench.now))
    going_on = Bench(monitor=replace(bench.monitor, seen_at=None, reserve_sample=None))
    for other in (restarted, going_on):
        other.now = bench.now
        for sample, times, facts in after:
            other.facts = facts
            for _ in range(times):
                other.tick(sample)
    assert restarted.transitions == going_on.transitions
    assert restarted.actions == going_on.actions
