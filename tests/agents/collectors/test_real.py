"""One source that is slow, broken or hangs, beside one that is not."""

from __future__ import annotations

import threading

import pytest

from agents.collectors import real, watch
from agents.collectors.base import Finding, Unavailable, values_of
from agents.collectors.card import Card
from agents.collectors.nvml import Nvml, SignalSource
from agents.collectors.real import RealCollector
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal
from tests.agents.collectors.fake_nvml import UUID, FakeCard, FakeNvml

CARD = Card(0, "GPU-1", "H100", 80 << 30)


class Fake:
    """A source of one signal."""

    is_idle = False

    def __init__(self, name, signal, value, prompt=True, period_s=0.0, max_age_s=1.0):
        self.name, self.signal, self.value = name, signal, value
        self.prompt, self.period_s, self.max_age_s = prompt, period_s, max_age_s
        self.looks, self.closed = 0, False
        self.gate = threading.Event()
        self.gate.set()

    def look(self, now):
        self.looks += 1
        self.gate.wait(5.0)
        if isinstance(self.value, Exception):
            raise self.value
        return {"GPU-1": Finding(values_of({self.signal: self.value}))}

    def close(self):
        self.closed = True


@pytest.fixture
def collectors(monkeypatch):
    """Makes collectors; a source that answers at all has all the time it needs."""
    monkeypatch.setattr(real, "PROMPT_S", 0.2)
    monkeypatch.setattr(watch, "CLOSE_S", 0.2)
    made = []

    def make(*sources):
        made.append(RealCollector([CARD], [[source] for source in sources], dict))
        return made[-1]

    yield make
    for collector in made:
        collector.close()


def shown(reading, signal):
    return reading.gpus[0].values[POSITIONS[signal]]


def look(reading, name):
    return next(look for look in reading.looks if look.source == name)


def test_a_prompt_source_shows_in_the_sample_it_was_asked_for(collectors):
    reading = collectors(Fake("nvml", Signal.POWER, 300.0)).collect(10.0)
    assert shown(reading, Signal.POWER) == 300.0
    assert look(reading, "nvml").success
    assert look(reading, "nvml").duration_s < 1.0


def test_a_source_that_fails_says_why_and_stops_no_other(collectors):
    broken = Fake("dcgm", Signal.SM_ACTIVITY, Unavailable("nobody answers"))
    reading = collectors(broken, Fake("nvml", Signal.POWER, 300.0)).collect(10.0)
    assert shown(reading, Signal.POWER) == 300.0
    assert shown(reading, Signal.SM_ACTIVITY) is None
    assert (look(reading, "dcgm").success, look(reading, "dcgm").why) == (False, "nobody answers")


def test_a_defect_in_a_source_stops_no_other_either(collectors):
    broken = Fake("dcgm", Signal.SM_ACTIVITY, ZeroDivisionError())
    reading = collectors(broken, Fake("nvml", Signal.POWER, 300.0)).collect(10.0)
    assert look(reading, "dcgm").why == "ZeroDivisionError"
    assert shown(reading, Signal.POWER) == 300.0


def test_a_source_that_hangs_is_not_asked_again_and_grows_old(collectors):
    slow, quick = Fake("gpm", Signal.SM_ACTIVITY, 40.0), Fake("nvml", Signal.POWER, 300.0)
    collector = collectors(slow, quick)
    assert shown(collector.collect(10.0), Signal.SM_ACTIVITY) == 40.0
    slow.gate.clear()
    assert shown(collector.collect(10.2), Signal.SM_ACTIVITY) == 40.0
    for now in (10.4, 12.0):
        reading = collector.collect(now)
    assert shown(reading, Signal.SM_ACTIVITY) is None
    assert shown(reading, Signal.POWER) == 300.0
    assert look(reading, "gpm").why == "has not answered for 2 s"
    assert (slow.looks, quick.looks) == (2, 4)
    slow.gate.set()
    collector._lanes[0].wait(1.0)
    assert shown(collector.collect(12.2), Signal.SM_ACTIVITY) == 40.0


def test_a_source_that_fails_does_not_keep_the_next_of_its_lane_from_being_asked(monkeypatch):
    monkeypatch.setattr(real, "PROMPT_S", 1.0)
    broken = Fake("nvml", Signal.POWER, Unavailable("no driver"))
    collector = RealCollector([CARD], [[broken, Fake("gpm", Signal.SM_ACTIVITY, 40.0)]], dict)
    reading = collector.collect(10.0)
    collector.close()
    assert shown(reading, Signal.SM_ACTIVITY) == 40.0
    assert look(reading, "nvml").why == "no driver"


def test_a_slow_source_is_not_waited_for_twice(collectors, monkeypatch):
    waited = []
    monkeypatch.setattr(
        watch.Lane, "wait", lambda self, seconds: waited.append(self.watched[0].source.name)
    )
    slow = Fake("gpm", Signal.SM_ACTIVITY, 40.0)
    slow.gate.clear()
    collector = collectors(slow)
    for now in (10.0, 10.2, 10.4):
        collector.collect(now)
    slow.gate.set()
    assert waited == ["gpm"]


def test_a_source_is_asked_as_often_as_it_wants(collectors):
    source = Fake("dcgm", Signal.SM_ACTIVITY, 40.0, period_s=1.0)
    collector = collectors(source)
    for tick in range(11):
        collector.collect(10.0 + tick / 5)
    assert source.looks == 3


def test_a_source_that_has_nothing_to_ask_for_is_asked_once_and_again_when_it_has(collectors):
    source = Fake("service", Signal.ONLINE_QPS, 40.0)
    source.is_idle = True
    collector = collectors(source)
    for tick in range(3):
        collector.collect(10.0 + tick)
    assert source.looks == 1
    source.is_idle = False
    collector.collect(13.0)
    assert source.looks == 2


def test_a_source_that_may_wait_is_not_at_work_while_the_sample_is_acted_on(collectors):
    slow = Fake("processes", Signal.POWER, 300.0, prompt=False)
    collector = collectors(slow)
    collector.collect(10.0)
    assert slow.looks == 0
    collector.ask_others(10.0)
    collector._lanes[0].wait(1.0)
    assert slow.looks == 1


def test_a_clock_that_goes_back_makes_nothing_fresh(collectors):
    source = Fake("dcgm", Signal.SM_ACTIVITY, 40.0)
    collector = collectors(source)
    collector.collect(100.0)
    source.gate.clear()
    assert shown(collector.collect(50.0), Signal.SM_ACTIVITY) is None
    source.gate.set()


def test_closing_closes_the_sources_but_waits_for_none_that_hangs(collectors):
    quick, slow = Fake("nvml", Signal.POWER, 1.0), Fake("gpm", Signal.POWER, 1.0)
    collector = collectors(quick, slow)
    collector.collect(10.0)
    slow.gate.clear()
    collector.collect(10.2)
    collector.close()
    assert (quick.closed, slow.closed) == (True, False)
    slow.gate.set()


def test_nvml_shows_through_the_whole_way():
    nvml = Nvml(FakeNvml(FakeCard()))
    collector = RealCollector(nvml.cards(), [[SignalSource(nvml)]], dict)
    reading = collector.collect(10.0)
    collector._lanes[0].wait(1.0)
    reading = collector.collect(10.2)
    collector.close()
    assert nvml.cards()[0].uuid == UUID
    assert shown(reading, Signal.GPU_UTIL) == 85.0
