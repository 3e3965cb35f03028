"""What simulated jobs really do, and that it is what their node measures of them."""

from __future__ import annotations

import pytest

from agents.actuators.simulated import SimulatedRuntime
from agents.collectors.simulated import SimulatedCollector
from agents.contention.behaviour import behaviour
from agents.contention.world import World
from agents.wire.cluster import Cluster, ClusterGpu, ClusterNode
from agents.wire.messages import Measure, Profile
from agents.wire.names import EventKind
from tests.agents.cast import Stage, desired, placement

GIB = 1 << 30
ASSUMED = Profile("whisper-7", 100, 100, 12 * GIB, 100, 3_600.0, source="conservative")


def test_a_job_does_what_its_submitter_says():
    for source in ("", "user"):
        given = Profile("whisper-7", 33, 44, GIB, 5, 3_600.0, source=source)
        assert behaviour(given, ()) == given


def test_what_was_assumed_or_measured_of_a_job_does_not_change_what_it_does():
    alike = [ASSUMED, Profile("whisper-9", 55, 85, GIB, 5, 3_600.0, source="measured")]
    one, other = (behaviour(profile, ()) for profile in alike)
    assert (one.sm_percent, one.gpu_util_percent, one.memory_bytes) == (50, 86, 11 * GIB)
    assert (other.sm_percent, other.memory_bytes) == (one.sm_percent, one.memory_bytes)


def test_a_name_of_no_family_is_always_the_same():
    stranger = Profile("my-own", 100, 100, GIB, 100, 60.0, source="conservative")
    assert behaviour(stranger, ()) == behaviour(stranger, ())


@pytest.mark.parametrize("word", ["sm=x", "sm", "=", "sm=nan"])
def test_its_command_says_what_it_does_as_far_as_it_says_something(word):
    said = behaviour(ASSUMED, ("simulate", word, "memory_gib=3", "util=5e9"))
    assert (said.memory_bytes, said.gpu_util_percent) == (3 * GIB, 100)
    assert 0 <= said.sm_percent <= 100


class Stepped:
    """The sensors of a world that moves on with each look."""

    def __init__(self, world):
        self._world, self._inner = world, SimulatedCollector(world, "node-01")

    def collect(self, now):
        self._world.step(now)
        return self._inner.collect(now)

    def close(self): ...


def test_a_node_measures_what_a_simulated_job_does(tmp_path):
    gpus = tuple(ClusterGpu(f"GPU-{index}", "A100", 80 * GIB) for index in range(2))
    world = World(Cluster("lab", (ClusterNode("node-01", "lab", gpus),)), seed=3, clock=60.0)
    stage = Stage(tmp_path, runtime=SimulatedRuntime(world, "node-01"))
    stage.node._collector = Stepped(world)
    stage.healthy()
    wanted = placement(
        profile=ASSUMED,
        sm_share_percent=100.0,
        memory_quota_bytes=70 * GIB,
        measure=Measure(3.0, 6.0),
    )
    stage.order(desired(wanted, generation=2))
    stage.run(20)
    stage.die()
    (event,) = stage.told(EventKind.JOB_PROFILED)
    assert event.data["sm_percent"] == pytest.approx(50, abs=2)
    assert event.data["gpu_util_percent"] == pytest.approx(86, abs=2)
    assert event.data["memory_bytes"] == 11 * GIB
    assert event.data["step_s"] == pytest.approx(0.22, rel=0.1)
