from __future__ import annotations

import sys
import time

import msgspec
import pytest

from agents.actuators.base import Condition, StartFailed
from agents.actuators.process import ProcessSettings
from agents.actuators.simulated import MirroredProcessRuntime, SimulatedRuntime
from agents.contention.world import World
from agents.stub import trainer
from agents.wire.cluster import Cluster, ClusterGpu, ClusterNode
from tests.agents.cast import PLACEMENT_ID, PROFILE, placement

CARD = ClusterGpu("GPU-0", "NVIDIA A100-SXM4-80GB", 80 << 30)
OTHER_ID = "01920000-0000-7000-8000-000000000002"


@pytest.fixture
def world():
    world = World(Cluster("lab", (ClusterNode("node-01", "lab", (CARD,)),)), seed=7, clock=60.0)
    world.step(0.0)
    return world


@pytest.fixture
def runtime(world):
    return SimulatedRuntime(world, "node-01")


def advance(world, start, seconds):
    for tick in range(round(seconds * 5)):
        world.step(start + (tick + 1) / 5)


def test_a_job_gets_on_and_its_limits_hold(world, runtime):
    runtime.start(placement())
    runtime.set_duty(PLACEMENT_ID, 30.0)
    advance(world, 0.0, 3)
    facts, limits = runtime.observe(PLACEMENT_ID, 3.0), runtime.limits(PLACEMENT_ID)
    assert facts.condition is Condition.ALIVE
    assert facts.work_done_s > 0
    assert (limits.sm_share_percent, limits.duty_percent) == (40.0, 30.0)


def test_a_job_that_finished_its_work_exits_0(world, runtime):
    runtime.start(placement(profile=msgspec.structs.replace(PROFILE, work_s=30.0)))
    runtime.set_duty(PLACEMENT_ID, 100.0)
    advance(world, 0.0, 8)
    facts = runtime.observe(PLACEMENT_ID, 8.0)
    assert (facts.condition, facts.exit_code) == (Condition.EXITED, 0)


def test_a_gpu_that_is_taken_takes_no_second_job(runtime):
    runtime.start(placement())
    with pytest.raises(StartFailed):
        runtime.start(placement(placement_id=OTHER_ID))


def test_nothing_lives_through_a_restart_of_a_simulated_node(world, runtime):
    runtime.start(placement())
    heir = SimulatedRuntime(world, "node-01")
    heir.adopt(placement())
    assert heir.observe(PLACEMENT_ID, 1.0).condition is Condition.VANISHED


def test_a_job_of_a_world_that_is_gone_has_vanished(runtime):
    assert runtime.observe(PLACEMENT_ID, 1.0).condition is Condition.VANISHED


def test_the_values_show_a_real_process_for_as_long_as_it_lives(world, tmp_path):
    settings = ProcessSettings(tmp_path / "jobs")
    runtime = MirroredProcessRuntime(settings, {0: "GPU-0"}, world, "node-01")
    runtime.start(placement(command=(sys.executable, trainer.__file__)))
    while runtime.observe(PLACEMENT_ID, 0.0).condition is Condition.STARTING:
        time.sleep(0.02)
    advance(world, 0.0, 2)
    assert world.offline_sm()[0] > 0

    runtime.sigterm(PLACEMENT_ID, 5.0)
    while runtime.observe(PLACEMENT_ID, 0.0).condition is not Condition.EXITED:
        time.sleep(0.02)
    advance(world, 2.0, 2)
    assert world.offline_sm()[0] == 0


def test_a_freeze_that_reaches_a_real_process_shows_in_the_values(world, bench):
    settings = ProcessSettings(bench.folder / "jobs", xcuda=bench.settings())
    bench.runtime = MirroredProcessRuntime(settings, {0: "GPU-0"}, world, "node-01")
    bench.start("exec $programs/loop launch --seconds 60")
    bench.until(lambda facts: facts.pids)
    bench.runtime.set_duty(PLACEMENT_ID, 100.0)
    advance(world, 0.0, 2)
    assert world.offline_sm()[0] > 0

    bench.runtime.freeze(PLACEMENT_ID)
    advance(world, 2.0, 2)
    assert world.offline_sm()[0] == 0

    bench.runtime.thaw(PLACEMENT_ID)
    advance(world, 4.0, 2)
    assert world.offline_sm()[0] > 0
