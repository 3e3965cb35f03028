from __future__ import annotations

import asyncio

import numpy as np
import pytest

from console.telemetry import frames
from console.telemetry.seat import EVENTS_KEPT, Seat, Tick
from tests.wire.frames import SNAPSHOT, decode

IDS = np.array([1, 2], np.uint32)
CELLS = np.zeros((2, 12), np.uint8)
NOTHING = np.array([], np.intp)


def tick(sequence: int, epoch: int = 1) -> Tick:
    delta = frames.delta(IDS, CELLS, NOTHING, epoch, sequence, 0.0)
    return Tick(epoch, sequence, 0.0, IDS, CELLS, delta)


async def frame_after(seat: Seat, *ticks: Tick):
    for one in ticks:
        seat.offer(one, "{}")
    messages = await seat.take()
    frame = messages[-2]
    assert isinstance(frame, bytes)
    return decode(frame)


async def test_the_first_frame_is_a_snapshot_and_the_next_a_delta():
    seat = Seat()
    assert (await frame_after(seat, tick(5))).kind == SNAPSHOT
    assert (await frame_after(seat, tick(6))).kind != SNAPSHOT


async def test_a_stalled_tab_gets_the_newest_frame_alone_as_a_snapshot():
    seat = Seat()
    await frame_after(seat, tick(1))
    frame = await frame_after(seat, tick(2), tick(3), tick(4))
    assert (frame.kind, frame.sequence) == (SNAPSHOT, 4)


async def test_a_new_layout_starts_with_a_snapshot():
    seat = Seat()
    await frame_after(seat, tick(1))
    assert (await frame_after(seat, tick(2, epoch=2))).kind == SNAPSHOT


async def test_after_a_gap_the_browser_is_given_a_snapshot():
    seat = Seat()
    await frame_after(seat, tick(1))
    seat.start_over()
    assert (await frame_after(seat, tick(2))).kind == SNAPSHOT


async def test_events_of_a_stalled_tab_are_bounded():
    seat = Seat()
    for number in range(1_000):
        seat.tell(str(number))
    assert await seat.take() == [str(number) for number in range(1_000 - EVENTS_KEPT, 1_000)]


async def test_nothing_to_send_waits():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await Seat().take()
