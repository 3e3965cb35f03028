"""What a node does with offline work by the word of its MPS side."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from agents.mps.warden import Terms
from agents.node import NO_WORD
from agents.wire.names import (
    EndReason,
    EventKind,
    Origin,
    PlacementState,
    SharingMode,
    Signal,
)
from tests.agents.cast import PLACEMENT_ID, Stage, desired, placement


class Says:
    """An MPS side of few words."""

    def __init__(self, terms):
        self.now, self.is_urgent, self.due = terms, False, []
        self.around = None

    def terms(self, index, reading, around, now):
        if index != 0:
            return Terms()
        self.around = around
        return self.now

    def urgent(self):
        return [0] if self.is_urgent else []

    def news(self, index):
        due, self.due = (self.due, []) if index == 0 else ([], self.due)
        return tuple(due)


@pytest.fixture
def stage(tmp_path):
    stage = Stage(tmp_path)
    stage.node._mps = Says(Terms())
    yield stage
    stage.die()


def says(stage, **terms):
    stage.node._mps.now = Terms(**terms)


def test_a_gpu_that_mps_forbids_takes_no_work_and_says_why(stage):
    says(stage, unshareable="vllm (PID 5) runs on it without MPS")
    stage.healthy()
    stage.order(desired(placement(), generation=2))
    stage.run(3)
    assert stage.jobs.asked == []
    assert stage.status.gpus[0].unshareable_fact == "vllm (PID 5) runs on it without MPS"
    says(stage)
    stage.run(2)
    assert stage.job().state is PlacementState.RUNNING


def test_a_running_job_is_frozen_while_an_online_process_joins(stage):
    stage.start()
    says(stage, hold="PID 5 is no client of the MPS server")
    stage.run(2)
    assert stage.job().state is PlacementState.FROZEN
    assert stage.told(EventKind.FROZEN)[0].data["why"] == "PID 5 is no client of the MPS server"
    says(stage)
    stage.run(2)
    assert stage.job().state is PlacementState.RUNNING


def test_a_process_that_never_joins_makes_the_job_leave_through_the_ordinary_stop(stage):
    stage.start()
    says(stage, hold="PID 5 is no client", leave="PID 5 is no client")
    stage.run(30)
    assert "sigterm" in stage.jobs.asked
    assert "kill" not in stage.jobs.asked
    assert stage.job().end_reason is EndReason.EVICTED


def test_a_fault_evicts_as_an_emergency(stage):
    stage.start()
    says(stage, hold="recovering", fault="the MPS server is in FAULT")
    stage.run(3)
    (begun,) = stage.told(EventKind.EVICTION_STARTED)
    assert begun.data["origin"] == Origin.EMERGENCY
    assert "MPS server is in FAULT" in begun.data["why"]


def test_the_mps_side_may_act_only_where_the_mode_is_enforce(stage):
    stage.order(desired(mode=SharingMode.OBSERVE))
    stage.run(2)
    assert stage.node._mps.around.enforce is False
    stage.order(desired(generation=2))
    stage.run(2)
    assert stage.node._mps.around.enforce is True


def test_an_mps_side_that_breaks_lets_nothing_run_and_stops_nothing_else(stage):
    stage.start()
    stage.node._mps.terms = lambda *_, **__: 1 / 0
    stage.run(3)
    assert stage.job().state is PlacementState.FROZEN
    assert stage.status.gpus[0].unshareable_fact == NO_WORD
    assert stage.told(EventKind.EVICTION_STARTED) == []
    stage.node._mps = Says(Terms())
    stage.run(2)
    assert stage.job().state is PlacementState.RUNNING


def test_the_story_of_a_fault_is_told_as_it_goes_on_and_names_the_job(stage):
    stage.start()
    first = {"pid": 7, "side": "offline", "name": "loop", "placement_id": PLACEMENT_ID}
    stage.node._mps.due = [{"fault_id": "f", "first": first, "ended": False}]
    stage.run(2)
    stage.node._mps.due = [{"fault_id": "f", "first": None, "ended": True}]
    stage.run(2)
    told = stage.told(EventKind.GPU_FAULT)
    assert [event.data["ended"] for event in told] == [False, True]
    assert [event.placement_id for event in told] == [PLACEMENT_ID, None]
    assert [event.gpu_index for event in told] == [0, 0]


def test_the_end_of_a_story_outlives_an_agent_that_is_killed_in_the_same_second(stage):
    stage.start()
    stage.node._mps.is_urgent = True
    stage.node._mps.due = [{"fault_id": "f", "first": None, "ended": True}]
    stage.run(0.2)
    assert [event.data["ended"] for event in stage.told(EventKind.GPU_FAULT)] == [True]


def test_what_is_urgent_waits_for_no_second(stage):
    stage.start()
    stage.node._mps.is_urgent = True
    says(stage, hold="the MPS server is not ready")
    stage.run(0.4)
    assert stage.node._guards[0].terms.hold


def test_a_quarantine_counts_as_lifted_when_a_person_enables_the_gpu_again(stage):
    stage.healthy()
    stage.run(1)
    assert stage.node._mps.around.lifted
    stage.node.quarantine(0, "its MPS server faulted too often")
    stage.run(1)
    assert not stage.node._mps.around.lifted
    for generation, disabled in ((2, True), (3, False)):
        gpus = tuple(replace(gpu, disabled=disabled) for gpu in desired().gpus)
        stage.order(desired(gpus=gpus, generation=generation))
        stage.run(1)
        assert stage.node._mps.around.lifted is not disabled


def test_only_xids_that_sysmonitor_leaves_alone_are_handed_on(stage):
    stage.healthy()
    for code, handed in ((43.0, (43.0,)), (31.0, ()), (79.0, ()), (0.0, ())):
        stage.sensors.values[Signal.XID] = code
        stage.run(1)
        assert stage.node._mps.around.xids == handed
