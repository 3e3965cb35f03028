from __future__ import annotations

import dataclasses
import json

import pytest
from msgspec.structs import replace

from agents.sysmonitor import machine
from agents.sysmonitor.crossings import Cause
from agents.sysmonitor.monitor import ActionKind, Facts, Monitor, from_dict, to_dict
from agents.sysmonitor.signals import reading
from agents.sysmonitor.transitions import EndlessMoves, Trigger
from agents.wire.names import GpuState, Origin, Signal
from agents.wire.policy import Threshold, balanced
from tests.agents.sysmonitor.cast import (
    ALONE,
    FULL_CARD,
    GPU,
    NOTHING,
    POLICY,
    SHARED,
    SLO_MS,
    Bench,
    evicted,
    healthy,
    seen,
    values,
)

OVER_P99 = 1.7 * SLO_MS
BUSY_P99 = 1.2 * SLO_MS
SILENT = {str(signal): None for signal in Signal}


# --- start ------------------------------------------------------------------------------


def test_the_first_quiet_second_makes_it_healthy():
    assert Bench().run(1).path == [GpuState.HEALTHY]


def test_the_first_busy_second_makes_it_unhealthy():
    assert Bench().run(1, online_p99=BUSY_P99).path == [GpuState.UNHEALTHY]


def test_nothing_is_judged_before_the_first_sample():
    assert Bench().run(3, **SILENT).path == []


def test_a_required_signal_that_never_came_makes_it_unhealthy_after_its_dwell():
    bench = Bench().run(5, sm_activity=None)
    assert bench.state is GpuState.INIT
    assert bench.run(2, sm_activity=None).state is GpuState.UNHEALTHY
    assert "SM activity" in bench.monitor.why


# --- the guard --------------------------------------------------------------------------


def test_the_first_local_sample_over_a_limit_freezes():
    bench = healthy()
    step = bench.tick(values(online_p99=OVER_P99))
    assert [action.kind for action in step.actions] == [ActionKind.FREEZE]
    assert step.monitor.state is GpuState.GUARDED
    assert step.transitions[0].samples == (seen(online_p99=OVER_P99),)
    assert step.actions[0].signal is Signal.ONLINE_P99
    assert step.actions[0].value == pytest.approx(1.7)
    assert step.actions[0].limit == 1.5


def test_a_value_at_its_limit_is_not_over_it():
    assert healthy().run(10, online_p99=1.5 * SLO_MS).evictions == []


def test_noise_thaws_after_the_dwell_and_goes_back_to_healthy():
    bench = healthy()
    bench.tick(values(online_p99=OVER_P99))
    bench.run(3)
    assert bench.state is GpuState.GUARDED
    bench.run(2)
    assert bench.path[-2:] == [GpuState.GUARDED, GpuState.HEALTHY]
    assert bench.done == [ActionKind.FREEZE, ActionKind.THAW]


def test_noise_on_a_busy_gpu_goes_back_to_unhealthy():
    bench = healthy().run(5, online_p99=BUSY_P99)
    bench.tick(values(online_p99=OVER_P99))
    bench.run(5, online_p99=BUSY_P99)
    assert bench.path[-3:] == [GpuState.UNHEALTHY, GpuState.GUARDED, GpuState.UNHEALTHY]


def test_a_completed_dwell_evicts_for_overload():
    bench = healthy()
    bench.run(2.8, online_p99=OVER_P99)
    assert bench.evictions == []
    bench.run(1.4, online_p99=OVER_P99)
    assert bench.path[-2:] == [GpuState.GUARDED, GpuState.OVERLIMIT]
    assert bench.evictions == [Origin.OVERLOAD]
    assert bench.done == [ActionKind.FREEZE, ActionKind.EVICT]


def test_it_stays_guarded_while_each_second_has_a_bad_sample_and_a_good_end():
    bench = healthy()
    for _ in range(20):
        bench.tick(values(online_p99=OVER_P99))
        bench.run(0.8)
    assert bench.state is GpuState.GUARDED
    assert bench.evictions == []


def test_one_good_second_starts_the_dwell_anew():
    bench = healthy().run(2, online_p99=OVER_P99).run(1).run(2.8, online_p99=OVER_P99)
    assert bench.state is GpuState.GUARDED


def test_a_lower_clock_is_a_worse_one():
    bench = healthy().run(4, sm_clock=0.6 * 1_410.0)
    assert bench.state is GpuState.OVERLIMIT
    assert bench.monitor.cause is Signal.SM_CLOCK


def test_a_low_clock_that_the_driver_has_no_reason_for_is_no_limit_crossed():
    bench = healthy()
    bench.facts = dataclasses.replace(SHARED, throttled_by="")
    assert bench.run(10, sm_clock=0.5 * 1_410.0).done == []
    bench.facts = dataclasses.replace(SHARED, throttled_by="power cap")
    bench.run(1, sm_clock=0.5 * 1_410.0)
    assert bench.monitor.why.endswith("under its limit, 65 % of its maximum: power cap")


def test_nothing_is_frozen_where_nothing_runs_offline():
    bench = healthy()
    bench.facts = ALONE
    bench.run(10, online_p99=OVER_P99)
    assert bench.state is GpuState.UNHEALTHY
    assert bench.done == []


def test_a_job_that_ends_while_guarded_leaves_nothing_to_hold():
    bench = healthy().run(0.4, online_p99=OVER_P99)
    bench.facts = ALONE
    bench.run(1, online_p99=OVER_P99)
    assert bench.path[-2:] == [GpuState.GUARDED, GpuState.HEALTHY]
    assert bench.done == [ActionKind.FREEZE]


def test_contention_is_no_matter_where_nobody_is_online():
    bench = healthy()
    bench.facts = Facts(offline_present=True, online_present=False)
    assert bench.run(10, sm_activity=99.0, gpu_util=100.0).state is GpuState.HEALTHY


def test_heat_is_a_matter_also_where_nobody_is_online():
    bench = healthy()
    bench.facts = Facts(offline_present=True, online_present=False)
    assert bench.run(1, temperature=95.0).state is GpuState.GUARDED


# --- memory -----------------------------------------------------------------------------


def test_the_first_sample_over_the_reserve_freezes_and_the_second_evicts():
    bench = healthy()
    bench.tick(values(memory=FULL_CARD))
    assert bench.done == [ActionKind.FREEZE]
    step = bench.tick(values(memory=FULL_CARD))
    assert bench.evictions == [Origin.EMERGENCY]
    assert bench.path[-2:] == [GpuState.GUARDED, GpuState.OVERLIMIT]
    assert len(step.transitions[0].samples) == 2


def test_one_sample_over_the_reserve_that_is_shown_twice_does_not_evict():
    bench = healthy()
    bench.tick(values(memory=FULL_CARD))
    bench.facts = dataclasses.replace(SHARED, memory_is_new=False)
    bench.run(0.6, memory=FULL_CARD)
    assert bench.evictions == []
    bench.facts = SHARED
    bench.tick(values(memory=FULL_CARD))
    assert bench.evictions == [Origin.EMERGENCY]


def test_two_samples_over_the_reserve_with_a_good_one_between_do_not_evict():
    bench = healthy()
    for _ in range(10):
        bench.tick(values(memory=FULL_CARD))
        bench.tick(values())
    assert bench.evictions == []
    assert bench.state is GpuState.GUARDED


def test_the_reserve_holds_without_a_threshold_of_the_policy():
    thresholds = {Signal.ONLINE_P99: Threshold(1.0, 1.5)}
    bench = healthy(replace(POLICY, thresholds=thresholds))
    bench.run(0.4, memory=FULL_CARD)
    assert bench.evictions == [Origin.EMERGENCY]


def test_memory_below_the_threshold_of_the_policy_but_over_the_reserve_counts():
    tight = replace(POLICY, memory_reserve_percent=30.0)
    bench = healthy(tight).run(0.4, memory=0.75 * (80 << 30))
    assert bench.evictions == [Origin.EMERGENCY]


# --- busy -------------------------------------------------------------------------------


def test_a_signal_over_its_lower_limit_for_its_dwell_makes_it_unhealthy():
    bench = healthy().run(3, online_p99=BUSY_P99)
    assert bench.state is GpuState.HEALTHY
    assert bench.run(1, online_p99=BUSY_P99).state is GpuState.UNHEALTHY
    assert bench.done == []


def test_it_is_healthy_again_well_under_the_limit_only():
    bench = healthy().run(5, online_p99=BUSY_P99).run(10, online_p99=0.95 * SLO_MS)
    assert bench.state is GpuState.UNHEALTHY
    assert bench.run(5, online_p99=0.85 * SLO_MS).state is GpuState.HEALTHY


def test_p99_over_the_slo_at_lowered_duty_proposes_an_eviction_each_dwell():
    bench = healthy().run(4, online_p99=BUSY_P99)
    assert bench.state is GpuState.UNHEALTHY
    bench.run(POLICY.slo_dwell_s - 2, online_p99=BUSY_P99)
    assert bench.done == []
    bench.run(3, online_p99=BUSY_P99)
    assert [(action.kind, action.origin) for action in bench.actions] == [
        (ActionKind.PROPOSE, Origin.SLO)
    ]
    bench.run(POLICY.slo_dwell_s, online_p99=BUSY_P99)
    assert bench.done == [ActionKind.PROPOSE] * 2


def test_p99_that_falls_under_the_slo_once_starts_the_dwell_anew():
    bench = healthy().run(4, online_p99=BUSY_P99)
    for _ in range(5):
        bench.run(POLICY.slo_dwell_s - 5, online_p99=BUSY_P99).run(1, online_p99=0.98 * SLO_MS)
    assert bench.done == []


# --- missing ----------------------------------------------------------------------------


def test_a_required_signal_missing_past_its_dwell_makes_it_unhealthy_and_its_return_healthy():
    bench = healthy().run(4, sm_activity=None)
    assert bench.state is GpuState.HEALTHY
    assert bench.run(2, sm_activity=None).state is GpuState.UNHEALTHY
    assert bench.run(5).state is GpuState.HEALTHY


def test_a_signal_nobody_requires_may_be_missing():
    assert healthy().run(30, power=None, temperature=None).state is GpuState.HEALTHY


def test_a_gpu_without_any_signal_is_guarded_and_never_evicted_from():
    bench = healthy().run(2, **SILENT)
    assert bench.state is GpuState.GUARDED
    assert bench.done == [ActionKind.FREEZE]
    bench.run(600, **SILENT)
    assert bench.state is GpuState.GUARDED
    assert bench.evictions == []


def test_one_lost_second_does_not_guard():
    assert healthy().run(1, **SILENT).run(3).path == [GpuState.HEALTHY]


def test_signals_that_return_quiet_thaw_after_the_dwell():
    bench = healthy().run(10, **SILENT).run(3)
    assert bench.state is GpuState.GUARDED
    assert bench.run(2).state is GpuState.HEALTHY


def test_signals_that_return_over_a_limit_need_a_whole_dwell_of_their_own():
    bench = healthy().run(10, **SILENT).run(2.8, online_p99=OVER_P99)
    assert bench.state is GpuState.GUARDED
    assert bench.run(2, online_p99=OVER_P99).evictions == [Origin.OVERLOAD]


def test_p99_that_vanishes_while_over_its_limit_keeps_the_job_frozen():
    bench = healthy().run(1, online_p99=OVER_P99).run(60, online_p99=None)
    assert bench.state is GpuState.GUARDED
    assert bench.evictions == []


def test_each_of_two_that_crossed_together_must_be_seen_under_its_limit():
    bench = healthy()
    bench.tick(values(online_p99=OVER_P99, sm_activity=99.0))
    bench.run(60, sm_activity=None)
    assert bench.state is GpuState.GUARDED
    assert bench.run(5).state is GpuState.HEALTHY


def test_what_vanishes_in_the_second_in_which_it_crossed_keeps_the_job_frozen():
    bench = healthy()
    bench.tick(values(online_p99=OVER_P99))
    bench.tick(values(sm_activity=99.0))
    bench.run(60, sm_activity=None)
    assert bench.state is GpuState.GUARDED


def test_what_is_missing_is_named():
    last = seen(power=None, online_p99=None)
    assert set(machine.missing(last, POLICY, SHARED)) == {Signal.POWER, Signal.ONLINE_P99}
    assert machine.missing(seen(gpu_util=0.0), POLICY, SHARED) == ()


# --- faults and people ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "sample", "at_once"),
    [
        (Facts(offline_present=True, mps_fault="the MPS server is in FAULT"), {}, True),
        (Facts(offline_present=True, host_memory_short="it holds too much"), {}, False),
        (SHARED, {"xid": 31.0}, True),
    ],
    ids=["MPS in FAULT", "host memory", "an illegal access"],
)
def test_a_fault_evicts_without_a_dwell_but_through_guarded(fault, sample, at_once):
    bench = healthy()
    bench.facts = fault
    bench.run(1, **sample)
    assert bench.path[-2:] == [GpuState.GUARDED, GpuState.OVERLIMIT]
    assert bench.evictions == [Origin.EMERGENCY]
    assert bench.actions[-1].at_once is at_once


def test_a_fault_during_an_eviction_hurries_it_once():
    bench = healthy().run(5, online_p99=OVER_P99)
    assert bench.evictions == [Origin.OVERLOAD]
    bench.facts = dataclasses.replace(SHARED, mps_fault="the MPS server is in FAULT")
    bench.run(5, online_p99=OVER_P99)
    assert bench.evictions == [Origin.OVERLOAD, Origin.EMERGENCY]
    assert bench.actions[-1].at_once
    assert bench.state is GpuState.OVERLIMIT


@pytest.mark.parametrize("state", [GpuState.COOLDOWN, GpuState.DISABLED])
def test_a_fault_ends_a_job_that_should_not_be_there(state):
    bench = Bench(monitor=Monitor(state=state, cooldown_s=60.0))
    bench.facts = dataclasses.replace(SHARED, mps_fault="the MPS server is in FAULT")
    bench.run(3)
    assert bench.evictions == [Origin.EMERGENCY]
    assert bench.monitor.held


def test_an_xid_that_only_tells_changes_nothing():
    assert healthy().run(10, xid=45.0).path == [GpuState.HEALTHY]


def test_a_person_disables_and_enables():
    bench = healthy()
    bench.facts = Facts(disabled_by_person=True, disable_reason="swap the fan")
    assert bench.run(1).state is GpuState.DISABLED
    assert bench.monitor.why == "swap the fan"
    bench.run(30)
    bench.facts = ALONE
    bench.run(1)
    assert bench.path[-3:] == [GpuState.DISABLED, GpuState.INIT, GpuState.HEALTHY]


def test_a_hardware_error_evicts_and_quarantines_until_a_person_lifts_it():
    bench = healthy().run(1, xid=79.0)
    assert bench.state is GpuState.DISABLED
    assert bench.evictions == [Origin.EMERGENCY]
    bench.facts = ALONE
    assert bench.run(600).state is GpuState.DISABLED
    bench.facts = Facts(disabled_by_person=True)
    assert bench.run(5).state is GpuState.DISABLED
    bench.facts = ALONE
    assert bench.run(1).state is GpuState.HEALTHY


def test_a_lifted_quarantine_with_the_error_still_there_is_no_loop():
    bench = healthy().run(1, xid=79.0)
    bench.facts = Facts(disabled_by_person=True)
    bench.run(1, xid=79.0)
    bench.facts = ALONE
    assert bench.run(1, xid=79.0).path[-2:] == [GpuState.INIT, GpuState.DISABLED]


@pytest.mark.parametrize("state", [GpuState.INIT, GpuState.COOLDOWN, GpuState.DISABLED])
def test_a_job_in_a_state_without_a_guard_is_still_frozen(state):
    step = machine.local_step(
        Monitor(state=state), seen(online_p99=OVER_P99), POLICY, SHARED, now=1.0
    )
    assert step.monitor.state is state
    assert [action.kind for action in step.actions] == [ActionKind.FREEZE]


# --- the way back -----------------------------------------------------------------------


def test_overlimit_ends_when_the_memory_has_returned():
    bench = healthy().run(5, online_p99=OVER_P99).run(20)
    assert bench.state is GpuState.OVERLIMIT
    bench.facts = Facts(offline_present=False, offline_memory_returned=False)
    assert bench.run(5).state is GpuState.OVERLIMIT
    bench.facts = ALONE
    assert bench.run(1).state is GpuState.COOLDOWN
    assert bench.monitor.cooldown_s == POLICY.cooldown_s


def test_cooldown_ends_in_healthy_when_calm_and_in_unhealthy_when_busy():
    calm, busy = evicted(healthy()), evicted(healthy())
    assert calm.run(POLICY.cooldown_s + 1).state is GpuState.HEALTHY
    assert busy.run(POLICY.cooldown_s + 1, online_p99=BUSY_P99).state is GpuState.UNHEALTHY


def test_cooldown_doubles_inside_its_window_up_to_its_bound():
    bench, given = healthy(), []
    for _ in range(6):
        given.append(evicted(bench).monitor.cooldown_s)
        bench.run(given[-1] + 4)
    assert given == [20.0, 40.0, 80.0, 120.0, 120.0, 120.0]


def test_cooldown_decays_with_each_quiet_window():
    bench = healthy()
    for _ in range(4):
        bench.run(evicted(bench).monitor.cooldown_s + 4)
    bench.run(2.1 * POLICY.cooldown_window_s)
    assert evicted(bench).monitor.cooldown_s == 30.0


def test_calm_is_said_once_the_cause_was_under_its_lower_limit_for_the_dwell():
    bench = healthy().run(5, online_p99=OVER_P99)
    assert not machine.calm(bench.monitor, POLICY)
    bench.run(2.8)
    assert not machine.calm(bench.monitor, POLICY)
    bench.run(2)
    assert machine.calm(bench.monitor, POLICY)
    assert bench.state is GpuState.OVERLIMIT


def test_calm_is_never_said_after_a_fault():
    bench = healthy()
    bench.facts = Facts(offline_present=True, mps_fault="the MPS server is in FAULT")
    assert not machine.calm(bench.run(30).monitor, POLICY)


def test_pressing_is_any_limit_crossed():
    assert machine.pressing(seen(temperature=90.0), POLICY, SHARED)
    assert not machine.pressing(seen(), POLICY, SHARED)


# --- time and restarts ------------------------------------------------------------------


def test_a_gap_in_the_samples_completes_no_dwell():
    bench = healthy().run(2, online_p99=OVER_P99)
    bench.now += 3_600.0
    bench.run(1, online_p99=OVER_P99)
    assert bench.state is GpuState.GUARDED


def test_a_restart_forgets_nothing_but_the_time_away():
    bench = evicted(evicted(healthy()).run(30)).run(10)
    kept = json.loads(json.dumps(to_dict(bench.monitor)))
    restored = from_dict(kept, now=5.0)
    same = {"seen_at": None, "since": restored.since, "reserve_sample": None}
    assert restored == replace(bench.monitor, **same)
    later = Bench(monitor=restored)
    later.facts, later.now = ALONE, 9_000.0
    assert later.run(25).state is GpuState.COOLDOWN
    assert later.run(10).state is GpuState.HEALTHY


def test_a_saved_monitor_that_is_none_is_refused():
    with pytest.raises(ValueError, match="not a saved monitor"):
        from_dict({"state": "SLEEPY"}, now=0.0)


def test_a_value_read_once_and_shown_for_three_seconds_completes_no_dwell_however_short():
    thresholds = {Signal.ONLINE_P99: Threshold(1.0, 1.5, 0.0, 0.0)}
    bench = healthy(replace(POLICY, thresholds=thresholds)).run(3, online_p99=OVER_P99)
    assert bench.state is GpuState.GUARDED
    assert bench.run(1, online_p99=OVER_P99).state is GpuState.OVERLIMIT


def test_a_beat_that_is_a_little_early_completes_a_dwell_all_the_same():
    bench = healthy()
    bench.tick(values(online_p99=OVER_P99))
    for second, early_s in enumerate((0.0, 0.004, -0.003, 0.008)):
        bench.now = 5.0 + second - early_s
        bench.second = [values(online_p99=OVER_P99)]
        bench.wire(seen(online_p99=OVER_P99))
    assert bench.evictions == [Origin.OVERLOAD]


def test_new_limits_start_every_dwell_anew():
    bench = healthy().run(3, online_p99=OVER_P99)
    bench.monitor = machine.relimited(bench.monitor)
    bench.run(3, online_p99=OVER_P99)
    assert bench.state is GpuState.GUARDED
    assert bench.run(1, online_p99=OVER_P99).evictions == [Origin.OVERLOAD]


def test_wire_samples_alone_guard_too():
    bench = Bench(balanced(1, 1))
    step = machine.wire_step(
        Monitor(state=GpuState.HEALTHY),
        seen(online_p99=OVER_P99),
        seen(online_p99=OVER_P99),
        bench.policy,
        SHARED,
        now=1.0,
    )
    assert step.monitor.state is GpuState.GUARDED
    assert [action.kind for action in step.actions] == [ActionKind.FREEZE]


def test_a_defect_that_goes_in_circles_raises_and_does_not_hang(monkeypatch):
    round_and_round = {GpuState.HEALTHY: Trigger.BUSY, GpuState.UNHEALTHY: Trigger.CALM}
    monkeypatch.setattr(
        machine, "decide", lambda view: (round_and_round[view.monitor.state], Cause("it turns"))
    )
    turning = Monitor(state=GpuState.HEALTHY)
    with pytest.raises(EndlessMoves, match="it turns"):
        machine.wire_step(turning, seen(), seen(), POLICY, SHARED, now=1.0)


def test_a_lost_sample_is_not_zero():
    assert reading(NOTHING, GPU, SLO_MS).get(Signal.SM_ACTIVITY) is None
