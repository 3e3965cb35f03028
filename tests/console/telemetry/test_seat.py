from __future__ import annotations

import asyncio
import json
import tracemalloc

import pytest

from console.telemetry import seat as seats
from console.telemetry.audience import Audience
from console.telemetry.frames import Detail
from console.telemetry.latest import Field, Grid
from console.telemetry.seat import BUDGET_BYTES_S, EVENTS_KEPT, Seat
from console.telemetry.watch import Watch
from tests.console.telemetry.fleet import facts
from tests.console.telemetry.scenes import layout
from tests.wire.frames import DELTA, SNAPSHOT, TURN, Frame, decode

HEADROOM = Watch(Detail.GPUS, frozenset({Field.HEADROOM}))


class House:
    """An audience of one, and its clock."""

    def __init__(self, nodes: int = 2) -> None:
        self.now = 1_000.0
        self.layout = layout(nodes)
        self.audience = Audience(Grid(facts(0)))
        self.audience.watch(Grid(self.layout.facts), self.layout, self.now)
        self.seat = Seat()
        self.audience.join(self.seat)
        self.seat.turn_to(1, HEADROOM)

    def turn(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.now += 1
            self.audience.turn(self.now)

    def take(self) -> list[Frame]:
        taken = self.seat.take(self.audience, self.now)
        return [decode(each) for each in taken if isinstance(each, bytes)]


def kinds(frames: list[Frame]) -> list[int]:
    return [frame.kind for frame in frames]


def test_work_is_counted_for_those_who_wait_longest_and_forgotten_with_them():
    house, other = House(), Seat(frozenset({1}))
    house.audience.join(other)
    house.audience.count(None, {"running": 5})
    assert house.audience.uncounted(1) == [frozenset({1})]
    house.audience.count(frozenset({1}), {"running": 2})
    assert house.audience.uncounted(1) == [None]
    assert json.loads(house.audience.summary(frozenset({1})))["running"] == 2
    house.audience.leave(other)
    house.audience.count(frozenset({1}), {"running": 2})
    assert house.audience.uncounted(4) == [None]
    assert "running" not in house.audience.counts.get(frozenset({1}), {})


def test_the_first_frame_is_a_snapshot_and_the_next_a_delta():
    house = House()
    assert kinds(house.take()) == [SNAPSHOT]
    house.turn()
    assert kinds(house.take()) == [DELTA]


def test_a_stalled_tab_gets_one_frame_for_all_it_missed():
    house = House()
    house.take()
    house.turn(seconds=4)
    (frame,) = house.take()
    assert (frame.kind, frame.sequence - frame.base) == (DELTA, 4)
    assert house.take() == []
    assert house.audience.dropped_total == 3


def test_a_stalled_tab_costs_no_memory():
    house = House()
    house.turn()
    tracemalloc.start()
    house.turn()
    before = tracemalloc.get_traced_memory()[0]
    house.turn(seconds=50)
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert grown < 10_000


def test_a_new_layout_starts_with_a_snapshot():
    house = House()
    house.take()
    fresh = layout(2, epoch=6)
    house.audience.watch(Grid(fresh.facts), fresh, house.now)
    house.turn()
    (frame,) = house.take()
    assert (frame.kind, frame.epoch) == (SNAPSHOT, 6)


def test_after_a_gap_the_browser_is_given_a_snapshot():
    house = House()
    house.take()
    house.seat.start_over()
    house.turn()
    assert kinds(house.take()) == [SNAPSHOT]


def test_another_watch_is_served_at_once():
    house = House()
    house.take()
    house.seat.turn_to(2, Watch(Detail.GPUS, frozenset({Field.MEMORY})))
    (frame,) = house.take()
    assert (frame.kind, frame.watch) == (TURN, 2)


def test_a_tab_over_its_budget_is_served_less_often(monkeypatch):
    monkeypatch.setattr(seats, "_SAVED_BYTES", 100)
    house = House()
    house.take()
    house.seat._bytes_left = -1.5 * BUDGET_BYTES_S
    house.turn()
    assert house.take() == []
    house.turn()
    (frame,) = house.take()
    assert frame.sequence - frame.base == 2


def test_a_tab_that_watches_nothing_still_hears_the_summary():
    house = House()
    house.seat.turn_to(2, Watch())
    assert [type(each) for each in house.seat.take(house.audience, house.now)] == [str]


def test_events_of_a_stalled_tab_are_bounded():
    house = House()
    house.take()
    for number in range(1_000):
        house.seat.tell(str(number))
    told = house.seat.take(house.audience, house.now)
    assert told == [str(number) for number in range(1_000 - EVENTS_KEPT, 1_000)]


async def test_nothing_to_send_waits():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Seat().wait()
