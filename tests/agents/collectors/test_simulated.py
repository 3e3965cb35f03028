from __future__ import annotations

import pytest

from agents.collectors.simulated import SimulatedCollector
from agents.contention.cluster import build_cluster
from agents.contention.world import World
from agents.sysmonitor.signals import POSITIONS
from agents.wire.messages import Profile
from agents.wire.names import Signal

WORK = Profile("bert-07", 55.0, 90.0, 4 << 30, 30.0, work_s=36_000.0)


@pytest.fixture
def world():
    world = World(build_cluster(2, 4, seed=3), seed=3, clock=60.0)
    world.step(0.0)
    return world


def gpus(world, node, now=0.0):
    reading = SimulatedCollector(world, node).collect(now)
    assert reading is not None
    return reading.gpus


def test_a_node_shows_its_own_gpus(world):
    shown = gpus(world, "node-02")
    assert [gpu.index for gpu in shown] == [0, 1, 2, 3]
    memory = shown[1].values[POSITIONS[Signal.MEMORY]]
    assert memory == world.values()[5, POSITIONS[Signal.MEMORY]]


def test_a_free_gpu_has_missing_values_and_no_online_process(world):
    free = next(gpu for gpu in range(8) if world.service(gpu) is None)
    node, index = ("node-01", free) if free < 4 else ("node-02", free - 4)
    gpu = gpus(world, node)[index]
    assert gpu.values[POSITIONS[Signal.ONLINE_P99]] is None
    assert gpu.online_processes == 0
    assert gpu.online_memory_bytes == 0


def test_the_offline_side_is_told_apart(world):
    world.start(0, "one", WORK, 60.0, 16 << 30)
    world.set_duty("one", 60.0)
    for tick in range(1, 20):
        world.step(tick * 0.2)
    gpu = gpus(world, "node-01", 4.0)[0]
    assert gpu.offline_memory_bytes == 4 << 30
    assert gpu.sm_offline_percent > 10.0


def test_a_lost_node_shows_nothing(world):
    world.lose_node("node-02")
    world.step(0.2)
    assert SimulatedCollector(world, "node-02").collect(0.2) is None
    assert SimulatedCollector(world, "node-01").collect(0.2) is not None


def test_a_node_of_another_world_is_refused(world):
    with pytest.raises(KeyError):
        SimulatedCollector(world, "node-99")
