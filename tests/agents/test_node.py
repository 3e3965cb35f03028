from __future__ import annotations

import sqlite3
import struct
from dataclasses import replace

import pytest

from agents.actuators.base import Condition, JobFacts
from agents.node import SAVE_EVERY_S
from agents.off import switch_off
from agents.wire import packed, samples
from agents.wire.messages import DesiredGpu, Unchanged
from agents.wire.names import (
    SIGNALS,
    EndReason,
    EventKind,
    GpuState,
    Origin,
    Phase,
    PlacementState,
    SharingMode,
    Signal,
)
from tests.agents.cast import EVICTION_ID, PLACEMENT_ID, STOP, Stage, desired, placement

ALL_PHASES = ["ACCEPTED", "SIGNALLED", "GONE", "MEMORY_RETURNED"]


@pytest.fixture
def staged(tmp_path):
    """Makes a stage whose jobs behave as the test wants."""
    stages = []

    def make(**jobs):
        stages.append(Stage(tmp_path, **jobs))
        return stages[-1]

    yield make
    for stage in stages:
        stage.die()


@pytest.fixture
def stage(staged):
    return staged()


def overload(stage):
    stage.sensors.values[Signal.SM_ACTIVITY] = 97.0


def calm_down(stage):
    stage.sensors.values[Signal.SM_ACTIVITY] = 20.0


# --- starting -------------------------------------------------------------------------------


def test_a_desired_job_runs_and_is_told_of(stage):
    stage.start()
    assert stage.job().state is PlacementState.RUNNING
    (started,) = stage.told(EventKind.PLACEMENT_STARTED)
    assert (started.placement_id, started.data["pid"]) == (PLACEMENT_ID, 4_242)


def test_the_same_state_again_starts_nothing_more(stage):
    stage.start()
    stage.order(desired(placement(), generation=2))
    stage.order(desired(placement(), generation=3))
    stage.run(2)
    assert stage.jobs.asked.count("start") == 1


def test_the_intent_is_on_disk_before_the_spawn(stage):
    stage.healthy()
    stage.jobs.start = _killed
    with pytest.raises(KeyboardInterrupt):
        stage.order(desired(placement(), generation=2))
    stage.restart()
    stage.run(2)
    assert "start" not in stage.jobs.asked
    assert stage.told(EventKind.PLACEMENT_ENDED)[0].data["reason"] == EndReason.LOST


def _killed(_):
    """What a SIGKILL between intent and spawn does: nothing after this line happens."""
    raise KeyboardInterrupt


def test_when_the_intent_cannot_be_written_nothing_starts(stage, monkeypatch):
    stage.healthy()
    with monkeypatch.context() as patched:
        patched.setattr(stage.state, "commit", _disk_full)
        stage.order(desired(placement(), generation=2))
    stage.run(2)
    assert "start" not in stage.jobs.asked
    assert stage.job().end_reason is EndReason.NEVER_STARTED


def _disk_full():
    raise sqlite3.OperationalError("database or disk is full")


def test_below_enforce_nothing_starts(stage):
    stage.order(desired(placement(), mode=SharingMode.SHADOW))
    stage.run(4)
    assert stage.job().state is PlacementState.DESIRED
    assert stage.jobs.asked == []


def test_a_busy_gpu_takes_no_new_work(stage):
    stage.sensors.values[Signal.SM_ACTIVITY] = 80.0  # over the lower threshold
    stage.order(desired(placement()))
    stage.run(6)
    assert stage.status.gpus[0].state is GpuState.UNHEALTHY
    assert stage.jobs.asked == []


def test_no_job_starts_on_a_sample_over_a_limit(stage):
    stage.healthy()
    overload(stage)
    stage.node.sample(stage.now)
    stage.order(desired(placement(), generation=2))
    assert "start" not in stage.jobs.asked
    assert stage.node._guards[0].state is GpuState.HEALTHY  # one sample of a free GPU moves nothing

    calm_down(stage)
    stage.run(1)

    assert "start" in stage.jobs.asked
    assert "freeze" not in stage.jobs.asked


def test_a_host_that_is_short_of_memory_takes_no_new_work_and_says_so(stage):
    stage.healthy()
    stage.jobs.no_room = "the host has 2.0 GiB of 64.0 GiB memory left"
    stage.run(1)
    stage.order(desired(placement(), generation=2))
    stage.run(2)
    assert "start" not in stage.jobs.asked
    assert {gpu.unshareable_fact for gpu in stage.status.gpus} == {stage.jobs.no_room}

    stage.jobs.no_room = ""
    stage.run(2)

    assert "start" in stage.jobs.asked


def test_a_job_that_was_told_to_stop_before_it_began_never_begins(stage):
    stage.healthy()
    stage.order(desired(placement(stop=STOP), generation=2))
    stage.order(desired(placement(), generation=3))
    stage.run(2)
    assert stage.jobs.asked == []
    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    assert (ended.data["reason"], ended.eviction_id) == (EndReason.NEVER_STARTED, EVICTION_ID)


# --- ending ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("code", "reason"), [(0, EndReason.FINISHED), (1, EndReason.FAILED)])
def test_a_job_that_ends_by_itself_says_how(stage, code, reason):
    stage.start()
    stage.jobs.exit(code)
    stage.run(1)
    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    assert (ended.data["reason"], ended.data["exit_code"]) == (reason, code)
    assert stage.job().end_reason is reason


def test_an_ordinary_stop_tells_every_phase_once(stage):
    stage.start()
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(2)
    assert stage.phases() == ALL_PHASES
    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    assert ended.eviction_id == EVICTION_ID
    assert (ended.data["reason"], ended.data["signalled"]) == (EndReason.EVICTED, True)


def test_exit_0_after_the_signal_is_no_success(stage):
    stage.start()
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(1)
    assert stage.told(EventKind.PLACEMENT_ENDED)[0].data["exit_code"] == 0
    assert stage.job().end_reason is EndReason.EVICTED


def test_a_deaf_job_is_ended_by_the_mps_server_before_any_kill(staged):
    stage = staged(dies_of=frozenset({"terminate_client"}))
    stage.start()
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(20)
    asked = stage.jobs.asked
    assert asked.index("sigterm") < asked.index("gate") < asked.index("terminate_client")
    assert "kill" not in asked
    assert stage.told(EventKind.EVICTION_STUCK)


def test_memory_has_returned_when_the_device_says_so_since_the_job_went(stage):
    stage.start()
    stage.sensors.offline_memory_bytes, stage.sensors.processes_at = 0, stage.now
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(2)
    assert stage.phases()[-1] == "GONE"  # the list shows none, but is from before

    stage.sensors.processes_at = stage.now
    stage.run(1)

    assert stage.phases()[-1] == "MEMORY_RETURNED"
    assert stage.told(EventKind.PLACEMENT_ENDED)[0].data["remarks"] == []


def test_where_no_source_tells_of_memory_the_end_says_so(stage):
    stage.start()
    stage.sensors.offline_memory_bytes = None
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(2)

    assert stage.phases()[-1] == "MEMORY_RETURNED"
    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    assert "was not seen on the device" in ended.data["remarks"][0]


def test_a_job_that_will_not_go_disables_its_gpu(staged):
    stage = staged(dies_of=frozenset())
    stage.start()
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(40)
    assert stage.told(EventKind.EVICTION_FAILED)
    assert stage.status.gpus[0].state is GpuState.DISABLED
    assert stage.job().state is PlacementState.STOPPING


def test_an_ended_id_is_kept_until_the_console_drops_it(stage):
    stage.start()
    stage.jobs.exit(0)
    stage.run(1)
    stage.restart()
    stage.run(2)
    assert stage.job().state is PlacementState.ENDED
    stage.order(desired(generation=3))
    stage.run(1)
    assert stage.job() is None
    assert stage.jobs.asked[-1] == "forget"


# --- the node protects itself ------------------------------------------------------------------


def test_the_first_sample_over_a_limit_freezes(stage):
    stage.start()
    overload(stage)
    stage.run(0.2)
    assert stage.jobs.asked[-1] == "freeze"
    (frozen,) = stage.told(EventKind.FROZEN)
    assert frozen.data["signal"] == Signal.SM_ACTIVITY
    assert frozen.data["value"] == 97.0


def test_launches_are_held_before_anybody_looks_at_the_jobs(stage, monkeypatch):
    stage.start()
    observe = stage.jobs.observe

    def observed(*asked):
        stage.jobs.asked.append("observe")
        return observe(*asked)

    monkeypatch.setattr(stage.jobs, "observe", observed)
    overload(stage)
    stage.node.sample(stage.now + 0.1)
    assert stage.jobs.asked[-2:] == ["freeze", "observe"]
    assert len(stage.told(EventKind.FROZEN)) == 1


def test_what_was_held_at_once_is_let_go_where_no_limit_holds_after_all(stage):
    stage.start()
    overload(stage)
    stage.sensors.online_processes = 0  # there is nobody left whom the limits would protect
    stage.run(0.2)
    assert stage.jobs.asked[-2:] == ["freeze", "thaw"]
    assert not stage.told(EventKind.FROZEN)
    stage.run(1)
    assert stage.jobs.asked[-1] == "thaw"


def test_a_job_that_has_ended_by_itself_is_not_told_to_have_been_frozen(stage):
    stage.start()
    overload(stage)
    stage.jobs.exit(0)
    stage.run(0.2)
    assert not stage.told(EventKind.FROZEN)
    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    assert ended.data["reason"] == EndReason.FINISHED


def test_noise_freezes_and_thaws_and_evicts_nobody(stage):
    stage.start()
    overload(stage)
    stage.run(0.2)
    calm_down(stage)
    stage.run(8)
    assert stage.job().state is PlacementState.RUNNING
    assert stage.told(EventKind.THAWED)
    assert not stage.told(EventKind.EVICTION_STARTED)


def test_a_completed_dwell_evicts_without_the_console(stage):
    stage.start()
    overload(stage)
    stage.run(20)
    (begun,) = stage.told(EventKind.EVICTION_STARTED)
    assert begun.data["origin"] == Origin.OVERLOAD
    assert {event.eviction_id for event in stage.told(EventKind.EVICTION_PHASE)} == {
        begun.eviction_id
    }
    assert stage.phases()[-1] == Phase.MEMORY_RETURNED
    assert stage.told(EventKind.PLACEMENT_ENDED)[0].eviction_id == begun.eviction_id


def test_an_eviction_of_the_nodes_own_shows_the_seconds_that_led_to_it(staged):
    stage = staged(records=True)
    stage.start()
    overload(stage)
    stage.run(20)
    (begun,) = stage.told(EventKind.EVICTION_STARTED)
    window = samples.of_event(begun.data["window"])
    column = len(packed.FIELDS) + SIGNALS.index(Signal.SM_ACTIVITY)
    activity = [
        struct.unpack_from(f"<{packed.WIDTH}f", one.rows)[column] for one in samples.seconds(window)
    ]
    assert activity[-1] == 97.0
    assert 20.0 in activity


def test_an_emergency_takes_over_the_stop_under_way(staged):
    stage = staged(dies_of=frozenset({"terminate_client"}))
    stage.start()
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(1)
    overload(stage)
    stage.run(6)
    (escalated,) = stage.told(EventKind.EVICTION_STARTED)
    assert escalated.eviction_id == EVICTION_ID
    assert stage.phases().count("SIGNALLED") == 1


def test_while_sharing_is_off_there_are_no_verdicts(stage):
    overload(stage)
    stage.order(desired(mode=SharingMode.OFF))
    stage.run(5)
    assert stage.status.gpus[0].state is GpuState.INIT
    assert not stage.told(EventKind.TRANSITION)


def test_a_gpu_disabled_by_a_person_says_so(stage):
    gpus = (DesiredGpu(0, SharingMode.ENFORCE, "standard", disabled=True, disabled_reason="fan"),)
    stage.order(desired(gpus=gpus))
    stage.run(3)
    assert stage.status.gpus[0].state is GpuState.DISABLED
    assert stage.status.gpus[0].why == "fan"


# --- leases and restarts ---------------------------------------------------------------------


def test_when_the_lease_ends_every_job_is_stopped_gently_and_none_starts(stage):
    stage.healthy()
    stage.order(desired(placement(), generation=2, lease_s=5.0))
    stage.run(7)
    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    assert ended.data["reason"] == EndReason.LEASE_EXPIRED
    assert "sigterm" in stage.jobs.asked
    assert "kill" not in stage.jobs.asked
    stage.run(3)
    assert stage.jobs.asked.count("start") == 1


def unnamed(stage):
    stage.order(desired(generation=3))


def escaped(stage):
    facts = JobFacts(Condition.ALIVE, pid=7, unlimited="it escaped")
    stage.jobs.facts[PLACEMENT_ID] = facts


def unattended(stage):
    stage.jobs.facts[PLACEMENT_ID] = JobFacts(Condition.ALIVE, pid=7, unattended=True)


def expired(stage):
    stage.now += 600


@pytest.mark.parametrize(
    ("happening", "origin"),
    [
        (unnamed, Origin.POLICY),
        (escaped, Origin.EMERGENCY),
        (unattended, Origin.POLICY),
        (expired, Origin.POLICY),
        (lambda stage: switch_off(stage.state_dir, None), Origin.STOP_SHARING),
    ],
)
def test_each_stop_of_the_nodes_own_is_one_eviction_with_its_phases(staged, happening, origin):
    stage = staged(dies_of=frozenset({"kill"}), after_adoption=Condition.ALIVE)
    stage.start()
    happening(stage)
    stage.run(2)
    stage.restart()  # what was not acknowledged is told again, and nothing twice
    stage.run(30)

    (begun,) = stage.told(EventKind.EVICTION_STARTED)
    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    told = {event.eviction_id for event in stage.told(EventKind.EVICTION_PHASE)}
    assert (begun.data["origin"], begun.data["why"]) == (origin, ended.data["why"])
    assert told == {begun.eviction_id, ended.eviction_id}
    assert sorted(stage.phases(), key=list(Phase).index) == stage.phases()
    assert len(set(stage.phases())) == len(stage.phases())


def test_a_job_that_host_memory_wants_off_goes_in_an_emergency_that_says_so(stage):
    stage.start()
    why = "it holds 9.0 GiB of the 10.0 GiB of host memory that this node gives it"
    stage.jobs.facts[PLACEMENT_ID] = JobFacts(Condition.ALIVE, pid=7, host_memory_short=why)

    stage.run(2)

    (begun,) = stage.told(EventKind.EVICTION_STARTED)
    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    assert (begun.data["origin"], begun.data["why"]) == (Origin.EMERGENCY, why)
    assert (ended.data["reason"], ended.data["avoid"]) == (EndReason.EVICTED, "node")
    assert stage.jobs.asked.index("freeze") < stage.jobs.asked.index("sigterm")


def test_an_overload_says_where_the_job_had_better_not_come_back_to(stage):
    stage.start()
    overload(stage)
    stage.run(20)

    assert stage.told(EventKind.PLACEMENT_ENDED)[0].data["avoid"] == "gpu"


def test_what_says_nothing_of_the_gpu_leaves_no_hint(stage):
    stage.start()
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(2)

    assert stage.told(EventKind.PLACEMENT_ENDED)[0].data["avoid"] is None


def test_a_renewed_lease_keeps_the_job(stage):
    stage.healthy()
    stage.order(desired(placement(), generation=2, lease_s=5.0))
    for _ in range(4):
        stage.run(4)
        stage.order(Unchanged(2, "", 5.0))
    assert stage.job().state is PlacementState.RUNNING


def test_a_restarted_agent_goes_on_with_what_lives(staged):
    stage = staged(after_adoption=Condition.ALIVE)
    stage.start()
    stage.restart()
    stage.run(2)
    assert stage.job().state is PlacementState.RUNNING
    assert stage.jobs.asked.count("start") == 1
    assert len({event.event_id for event in stage.told(EventKind.PLACEMENT_STARTED)}) == 1


def test_what_did_not_live_through_a_restart_is_lost_and_not_run_again(stage):
    stage.start()
    stage.restart()
    stage.run(2)
    assert stage.told(EventKind.PLACEMENT_ENDED)[0].data["reason"] == EndReason.LOST
    assert stage.jobs.asked.count("start") == 1


def test_a_stop_under_way_goes_on_where_it_was(staged):
    stage = staged(after_adoption=Condition.ALIVE, dies_of=frozenset({"terminate_client"}))
    stage.start()
    stage.order(desired(placement(stop=STOP), generation=3))
    stage.run(1)
    told = stage.phases()
    stage.restart()
    stage.run(20)
    assert told == ["ACCEPTED", "SIGNALLED"]
    assert "SIGNALLED" not in stage.phases()[2:]
    assert stage.jobs.asked.count("sigterm") == 1
    assert stage.job().end_reason is EndReason.EVICTED


def test_a_restarted_agent_guards_by_its_last_policy_without_the_console(staged):
    stage = staged(after_adoption=Condition.ALIVE)
    stage.start()
    stage.restart()
    overload(stage)
    stage.run(0.4)
    assert stage.jobs.asked[-1] == "freeze"


def test_a_quarantine_that_a_person_lifted_is_not_back_with_the_next_agent(stage):
    stage.healthy()
    stage.node.quarantine(0, "a job would not go")
    for generation, disabled in ((2, True), (3, False)):
        gpu = DesiredGpu(0, SharingMode.ENFORCE, "standard", disabled=disabled)
        stage.order(desired(gpus=(gpu,), generation=generation))
    stage.state.commit()
    stage.restart()
    assert stage.node._guards[0].quarantine == ""


def test_a_guards_state_survives_a_restart(stage):
    gpus = (DesiredGpu(0, SharingMode.ENFORCE, "standard"),)
    stage.order(desired(gpus=gpus))
    stage.run(3)
    before = stage.status.gpus[0].state
    stage.restart()
    stage.run(1)
    assert before is stage.status.gpus[0].state is GpuState.HEALTHY


def test_a_restart_costs_a_guard_a_minute_of_what_it_watched_at_most(stage):
    stage.healthy()
    stage.run(150)
    watched_s = stage.node._guards[0].monitor.state_s
    stage.restart()
    assert stage.node._guards[0].monitor.state_s >= watched_s - SAVE_EVERY_S


def test_events_not_acknowledged_are_sent_again_after_a_restart(stage):
    stage.start()
    told = [event.event_id for event in stage.events]
    stage.restart()
    stage.receive()
    assert [event.event_id for event in stage.events][: len(told)] == told


def test_a_node_switched_off_by_hand_stops_its_jobs_without_the_console(stage):
    stage.start()
    switch_off(stage.state_dir, "GPU-0")
    stage.run(3)
    assert stage.job().end_reason is EndReason.EVICTED
    assert [gpu.mode for gpu in stage.status.gpus] == [SharingMode.OFF, SharingMode.ENFORCE]
    assert "muxflow-agent off" in stage.status.gpus[0].unshareable_fact


# --- what it tells -----------------------------------------------------------------------------


def test_a_status_goes_out_on_a_change_and_every_five_seconds(stage):
    stage.healthy()
    before = stage.status
    stage.run(2)
    assert stage.status is before
    stage.run(3)
    assert stage.status.nonce != before.nonce


def test_a_refused_order_is_told_at_once(stage):
    stage.healthy()
    stage.order(desired(generation=0))
    stage.receive()
    assert "older than 1" in stage.status.refused


def test_silent_sensors_are_missing_values_not_zeros(stage):
    stage.healthy()
    stage.sensors.silent = True
    stage.run(2)
    sample = stage.telemetry.samples[0]
    assert set(sample.last) == {None}
    assert sample.sm_online_percent is None


def test_a_source_that_fails_blinds_the_node_and_stops_nothing_else(stage):
    stage.start()
    stage.sensors.failure = OSError("driver gone")
    stage.run(4)
    assert stage.status.gpus[0].state is GpuState.GUARDED
    assert "freeze" in stage.jobs.asked


@pytest.mark.parametrize("step", ["beat", "why_no_room"])
def test_a_runtime_that_fails_at_one_thing_leaves_nobody_unprotected(stage, step):
    stage.start()
    setattr(stage.jobs, step, lambda: 1 / 0)
    overload(stage)
    stage.run(6)
    assert "freeze" in stage.jobs.asked
    assert stage.told(EventKind.EVICTION_STARTED) != []


def test_a_sample_of_one_gpu_that_cannot_be_taken_costs_the_other_nothing(stage):
    stage.healthy()
    stage.order(desired(placement(gpu_index=1), generation=2))
    stage.node._guards[0].take = lambda *_: 1 / 0
    overload(stage)
    stage.run(6)
    (begun,) = stage.told(EventKind.EVICTION_STARTED)
    assert begun.data["origin"] == Origin.OVERLOAD


def test_the_hello_names_what_the_node_has_and_holds(stage):
    stage.order(desired(generation=4))
    hello = stage.node.hello()
    assert (hello.node, hello.generation, len(hello.gpus)) == ("node-01", 4, 2)
    assert "freeze" in hello.capabilities


def test_limits_that_can_change_at_any_moment_reach_a_running_job(stage):
    stage.start()
    changed = placement(memory_quota_bytes=1 << 30, duty_percent=7.0)

    stage.order(desired(changed, generation=3))
    stage.run(1)

    assert stage.jobs.asked.count(f"quota {1 << 30}") == 1
    assert next(iter(stage.node._guests)).duty_percent == 7.0


def test_no_duty_is_told_of_a_job_that_runs_unlimited(stage):
    stage.start()
    stage.run(1)
    assert stage.telemetry.samples[0].duty_percent is not None
    unlimited = replace(stage.jobs.facts[PLACEMENT_ID], unlimited="it is not under xCUDA")

    stage.jobs.facts[PLACEMENT_ID] = unlimited
    stage.run(1)

    assert stage.telemetry.samples[0].duty_percent is None


def test_every_sample_tells_the_jobs_that_the_agent_lives(stage):
    before = stage.jobs.beats
    stage.run(1)
    assert stage.jobs.beats == before + 5


def test_a_job_that_escaped_its_limits_is_stopped_and_the_reason_told(stage):
    stage.start()
    why = "process 7 uses CUDA and never came under xCUDA"
    stage.jobs.facts[PLACEMENT_ID] = JobFacts(Condition.ALIVE, pid=7, unlimited=why)

    stage.run(2)

    (ended,) = stage.told(EventKind.PLACEMENT_ENDED)
    assert (ended.data["reason"], ended.data["why"]) == (EndReason.FAILED, why)


def test_a_job_that_was_frozen_when_its_agent_died_is_thawed_by_the_next(staged):
    stage = staged(after_adoption=Condition.ALIVE, left_frozen=True)
    stage.start()

    stage.restart()
    stage.run(1)

    assert stage.jobs.asked[-1] == "thaw"
