"""A crowd says and does what its nodes would, one by one."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from agents import off
from agents.contention.cluster import build_cluster
from agents.crowd.crowd import TURNS, Crowd, is_large
from agents.settings.flags import parse
from agents.state import StateFile
from agents.wire import codec, packed, policy
from agents.wire.credentials import Credentials
from agents.wire.messages import DesiredGpu, DesiredService, DesiredState, PackedTelemetry
from agents.wire.names import GpuState, SharingMode
from tests.agents.cast import KEY, placement

NODES, GPUS = 3, 4
CLUSTER = build_cluster(NODES, GPUS, 1)
STEP_S = packed.FIELDS.index("step_s")


@pytest.fixture
async def crowd(tmp_path):
    words = ["--simulate", f"nodes={NODES},gpus={GPUS}", "--console", "ws://127.0.0.1:1/"]
    config = parse([*words, "--state-dir", str(tmp_path)])
    keys = {node.name: Credentials(node.name, "17", "t", KEY.hex()) for node in CLUSTER.nodes}
    state = StateFile(tmp_path)
    crowd = Crowd(config, CLUSTER, keys, state)
    crowd.boot()
    yield crowd
    await crowd.close()
    state.close()


class Clock:
    def __init__(self, crowd):
        self.crowd, self.now = crowd, asyncio.get_running_loop().time()

    def seconds(self, count):
        for _ in range(count):
            self.now += 1.0
            self.crowd.second(self.now)
            for turn in range(TURNS):
                self.crowd.turn(self.crowd.places[turn::TURNS], self.now)


def order(place, generation=1, placements=()):
    agent = place.sleeper
    gpus = tuple(DesiredGpu(at, SharingMode.ENFORCE, "p") for at in range(GPUS))
    names = enumerate(map(place._crowd.world.service, range(place.gpus.start, place.gpus.stop)))
    services = tuple(DesiredService(name, at, 400.0) for at, name in names if name)
    state = DesiredState(
        *(generation, agent.hello().nonce, 600.0, gpus, {"p": policy.balanced(1, 1)}),
        *(placements, services),
    )
    agent.received(codec.seal(state, KEY), asyncio.get_running_loop().time())


@pytest.fixture
async def clock(crowd):
    clock = Clock(crowd)
    clock.seconds(2)
    for place in crowd.places:
        order(place)
    clock.seconds(20)
    return clock


async def test_nodes_with_nothing_to_decide_sleep(crowd, clock):
    assert all(place.sleeper.asleep for place in crowd.places)
    assert {guard.state for place in crowd.places for guard in place.sleeper.guards} == {
        GpuState.HEALTHY
    }


async def test_what_is_said_of_a_sleeper_is_what_it_would_say(crowd, clock):
    for place in crowd.places:
        agent = place.sleeper
        told = agent.outbox._newest
        assert isinstance(told, PackedTelemetry)
        agent.sample(clock.now)
        agent.decide(clock.now, crowd.switch)
        own = packed.pack(agent.outbox._newest)
        assert rows(told)[:, STEP_S].tolist() == [1.0] * GPUS
        said, would = rows(told), rows(own)
        said[:, STEP_S] = would[:, STEP_S]
        assert said.tobytes() == would.tobytes()
        assert (own.number, own.fields, own.signals) == (told.number + 1, told.fields, told.signals)


def rows(telemetry):
    return np.frombuffer(telemetry.rows).reshape(GPUS, packed.WIDTH).copy()


async def test_a_sleeper_wakes_to_an_order_and_runs_the_job(crowd, clock):
    place = crowd.places[0]
    order(place, 2, (placement(gpu_index=1),))
    assert not place.sleeper.asleep
    clock.seconds(6)
    assert not place.sleeper.asleep
    assert rows(packed.pack(place.sleeper.outbox._newest))[1, STEP_S] == 1.0
    assert crowd.world.job(placement().placement_id).alive
    assert all(other.sleeper.asleep for other in crowd.places[1:])


async def test_a_sleeper_wakes_to_a_fault_of_its_gpu(crowd, clock):
    place = crowd.places[1]
    crowd.world.xid(place.gpus.start, 79)
    clock.seconds(1)
    assert place.sleeper.guards[0].state is GpuState.DISABLED


async def test_a_switch_on_the_node_wakes_all(crowd, clock, tmp_path):
    off.switch_off(tmp_path, None)
    clock.seconds(1)
    modes = {guard.mode for place in crowd.places for guard in place.sleeper.guards}
    assert modes == {SharingMode.OFF}


def test_a_fleet_is_large_from_a_thousand_gpus_on():
    assert is_large(build_cluster(125, 8, 1))
    assert not is_large(build_cluster(124, 8, 1))


async def test_a_node_that_booted_again_is_asked_before_it_sleeps(crowd, clock):
    place = crowd.places[2]
    crowd.lose(place.name, down_s=60.0)
    clock.seconds(2)
    crowd.world.restore_node(place.name)
    place.boot()
    clock.seconds(1)
    assert not place.sleeper.asleep
    clock.seconds(8)
    assert place.sleeper.asleep
