"""A node at rest, whose collector takes four samples of each second by itself, is the node that it
would have been."""

from __future__ import annotations

import asyncio
import random
import time
from functools import partial

import pytest

from agents import off
from agents.alarm import Alarm
from agents.collectors import real, watch
from agents.collectors.base import NodeReading
from agents.collectors.real import RealCollector
from agents.loop import Ending, _next
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import EventKind, Signal
from tests.agents.cast import Sensors, Stage, desired, placement
from tests.agents.collectors.test_real import CARD, Fake
from tests.agents.fake_console import until


class Scene:
    """Two GPUs whose values are anything, twice the same with the same seed."""

    def __init__(self, stage, seed):
        self.stage, self.chance = stage, random.Random(seed)
        stage.order(desired())
        self.told = []

    def look(self, now):
        chance, values = self.chance, self.stage.sensors.values
        values[Signal.SM_ACTIVITY] = chance.choice([5.0, 60.0, 90.0, 97.0, None, 4_294_967_295.0])
        values[Signal.MEMORY] = chance.choice([20.0, 79.5]) * (1 << 30)
        values[Signal.XID] = float(chance.choice([0, 0, 0, 13, 31, 94]))
        values[Signal.SM_CLOCK] = chance.choice([None, 200.0, 1_400.0])
        return Sensors.collect(self.stage.sensors, now)

    def decide(self):
        self.stage.node.decide(self.stage.now, off.Switch())
        self.stage.receive()
        self.told.append(self.stage.telemetry)


def events(stage):
    return [(event.kind, event.gpu_index, event.data) for event in stage.events]


@pytest.mark.parametrize("seed", range(3))
def test_it_tells_and_decides_what_it_would_have(tmp_path, seed):
    awake, resting = (Stage(tmp_path / name) for name in ("awake", "resting"))
    one, other = Scene(awake, seed), Scene(resting, seed)
    awake.sensors.collect = one.look  # type: ignore[method-assign]
    for second in range(120):
        times = [1_000.0 + second + 0.2 * place for place in range(5)]
        for awake.now in times:
            awake.node.sample(awake.now)
        one.decide()
        earlier = tuple(other.look(now) for now in times[:-1])
        last = other.look(times[-1])
        resting.now = times[-1]
        looked = partial(NodeReading, gpus=last.gpus, looks=(), earlier=earlier)
        resting.sensors.collect = looked  # type: ignore[method-assign]
        resting.node.sample(resting.now)
        other.decide()
    assert other.told == one.told
    assert events(resting) == events(awake)
    assert EventKind.TRANSITION in {kind for kind, _, _ in events(awake)}
    awake.die()
    resting.die()


def test_orders_that_come_while_it_rests_are_followed_on_a_sample_of_that_moment(tmp_path):
    stage = Stage(tmp_path)
    stage.order(desired())
    stage.run(10)
    stage.node.rests = True
    stage.sensors.values[Signal.SM_ACTIVITY] = 97.0  # since the last second
    stage.order(desired(placement(), generation=2))
    assert "start" not in stage.jobs.asked
    stage.sensors.values[Signal.SM_ACTIVITY] = 20.0
    stage.order(desired(placement(), generation=3))
    assert "start" in stage.jobs.asked
    assert not stage.node.may_rest
    stage.die()


class Counting(Fake):
    """Shows how often it was asked."""

    def look(self, now):
        self.value += 1.0
        return super().look(now)


def test_a_lane_goes_on_by_itself_and_nothing_that_it_saw_is_lost(monkeypatch):
    monkeypatch.setattr(watch, "ALONE_EVERY_S", 0.01)
    monkeypatch.setattr(real, "PROMPT_S", 5.0)
    collector = RealCollector([CARD], [[Counting("nvml", Signal.POWER, 0.0)]], dict)
    assert collector.go_on_alone(True)
    collector.collect(time.monotonic())
    deadline = time.monotonic() + 5.0
    while len(collector._alone._kept) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    reading = collector.collect(time.monotonic())
    collector.close()
    powers = [one.gpus[0].values[POSITIONS[Signal.POWER]] for one in (*reading.earlier, reading)]
    assert powers == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert sorted(one.at for one in reading.earlier) == [one.at for one in reading.earlier]


class Idle:
    """Nodes that rest until something comes."""

    def __init__(self):
        self.alarm, self.berths, self.is_at_rest = Alarm(), {}, True


async def test_what_comes_in_between_brings_the_next_sample_forward():
    nodes = Idle()
    ending, began = Ending(nodes.alarm), time.monotonic()
    waiting = asyncio.create_task(_next(nodes, 10, began, ending))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    nodes.is_at_rest = False
    nodes.alarm.ring()
    tick, due = await waiting
    assert tick < 20
    assert tick % 2 == 0
    assert due - began == pytest.approx((tick - 10) / 10)


async def test_an_agent_at_rest_ends_at_once():
    nodes = Idle()
    ending = Ending(nodes.alarm)
    waiting = asyncio.create_task(_next(nodes, 0, time.monotonic(), ending))
    await asyncio.sleep(0)
    ending.set()
    await until(waiting.done, timeout_s=0.5)
