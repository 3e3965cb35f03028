from __future__ import annotations

import asyncio
import socket
import time

import pytest

from agents import backfill
from agents import link as link_module
from agents.link import (
    CLOSE_TIMEOUT_S,
    OPEN_TIMEOUT_S,
    PING_EVERY_S,
    PING_TIMEOUT_S,
    Link,
    missed_after,
    retry_after_s,
)
from agents.wire.messages import EventAck, Welcome
from agents.wire.names import EventKind, PlacementState
from tests.agents.cast import PLACEMENT_ID, Stage, desired, placement
from tests.agents.fake_console import TOKEN, FakeConsole, until


class Site:
    """A node on real time with a real connection."""

    def __init__(self, state_dir, port, token=TOKEN):
        self.stage = Stage(state_dir, now=time.monotonic(), records=True)
        url = f"ws://127.0.0.1:{port}/ws/agent/"
        self.link = Link(url, token, "node-01", self.stage.node)
        self.tasks = [asyncio.create_task(self.link.run()), asyncio.create_task(self._beat())]

    async def _beat(self):
        tick = 0
        while True:
            self.stage.now, self.stage.wall_s = time.monotonic(), time.time()
            self.stage.tick(tick)
            tick += 1
            await asyncio.sleep(0.05)  # twice as fast as in earnest: seconds are short here

    async def close(self):
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.stage.die()


@pytest.fixture
async def console():
    async with FakeConsole() as console:
        yield console


@pytest.fixture
async def site(tmp_path, console):
    site = Site(tmp_path, console.port)
    yield site
    await site.close()


async def test_a_node_says_hello_and_runs_what_it_is_told(console, site):
    await until(lambda: console.hellos)
    await console.desire(desired(placement()))
    await until(lambda: EventKind.PLACEMENT_STARTED in {event.kind for event in console.events})
    (job,) = await until(lambda: console.status.placements)
    assert (job.placement_id, job.state) == (PLACEMENT_ID, PlacementState.RUNNING)


async def test_a_dropped_node_is_back_within_a_second(console, site, monkeypatch):
    monkeypatch.setattr("agents.link.GOOD_AFTER_S", 0.0)  # what stood a while is tried at once
    await until(lambda: console.hellos)
    await console.drop()
    await until(lambda: len(console.hellos) == 2, timeout_s=1.5)


async def test_an_agent_that_is_handed_over_is_back_at_once_and_says_nothing_of_it(
    console, site, caplog
):
    await until(lambda: console.telemetry)
    told = len(console.telemetry)
    await console.hand_over()
    await until(lambda: len(console.telemetry) > told, timeout_s=1.5)
    assert len(console.hellos) == 2
    assert "no connection" not in caplog.text


async def test_what_a_console_missed_is_told_to_it_once_it_is_back(console, site, monkeypatch):
    monkeypatch.setattr(backfill, "FIRST_AFTER_S", (0.0, 0.0))
    await until(lambda: console.telemetry)
    await console.go()
    last = console.telemetry[-1]
    await until(lambda: site.stage.node._reporter.number >= last.number + 3)
    console.history_after = last.sent_at
    await console.come()
    (missed,) = await until(lambda: console.missed)
    numbers = [number for block in missed.blocks for number in block.numbers]
    live = console.telemetry[console.telemetry.index(last) + 1]
    assert numbers[0] == last.number + 1
    assert numbers == list(range(numbers[0], numbers[-1] + 1))
    assert live.number - 1 <= numbers[-1] <= live.number


@pytest.mark.parametrize(("ahead_s", "after"), [(1.5, 400.0), (-60.0, 340.0), (3_600.0, 4_000.0)])
def test_what_was_missed_is_asked_for_by_the_clock_that_dated_it(ahead_s, after):
    welcome = Welcome(2, 500.0, 0, 400.0)
    assert missed_after(welcome, 500.0 + ahead_s) == after
    assert missed_after(Welcome(2, 500.0, 0), 500.0 + ahead_s) is None


async def test_a_console_that_comes_back_later_is_found(tmp_path):
    async with FakeConsole() as console:
        port = console.port
    site = Site(tmp_path, port)
    await asyncio.sleep(0.5)
    async with FakeConsole(port) as console:
        await until(lambda: console.hellos)
    await site.close()


async def test_events_that_were_not_acknowledged_come_again(console, site):
    console.acknowledges = False
    await until(lambda: console.hellos)
    await console.desire(desired())
    await until(lambda: console.events)
    first = [event.event_id for event in console.events]
    console.events.clear()
    console.acknowledges = True
    await console.drop()
    await until(lambda: len(console.events) >= len(first))
    assert [event.event_id for event in console.events][: len(first)] == first


async def test_an_acknowledgement_that_is_lost_is_made_up_for(console, site, monkeypatch):
    monkeypatch.setattr("agents.outbox.ACK_TIMEOUT_S", 0.3)
    console.acknowledges = False
    await until(lambda: console.hellos)
    await console.desire(desired())
    await until(lambda: console.events)
    console.acknowledges = True
    await until(lambda: console.acked_seq == site.stage.node.hello().last_event_seq)


async def test_what_the_console_knows_is_not_sent_again(console, site):
    await until(lambda: console.hellos)
    await console.desire(desired())
    await until(lambda: console.acked_seq)
    known = {event.event_id for event in console.events}
    console.events.clear()
    await console.drop()
    await until(lambda: len(console.hellos) == 2 and len(console.telemetry) > 1)
    assert not known & {event.event_id for event in console.events}


async def test_the_local_loop_does_not_wait_for_a_console_that_hangs(console, site):
    console.answers = False
    await until(lambda: console.handshakes)
    before = site.stage.now
    await until(lambda: site.stage.now > before + 0.4, timeout_s=OPEN_TIMEOUT_S / 2)


async def test_a_console_that_no_longer_answers_is_left(console, tmp_path, monkeypatch):
    monkeypatch.setattr(link_module, "PING_EVERY_S", 0.1)
    monkeypatch.setattr(link_module, "PING_TIMEOUT_S", 0.2)
    site = Site(tmp_path, console.port)
    await until(lambda: site.link.is_up)
    for connection in tuple(console._sockets):
        connection.transport.pause_reading()
    await until(lambda: not site.link.is_up, timeout_s=10)
    await site.close()


def test_a_dead_console_is_noticed_within_ten_seconds():
    assert PING_EVERY_S + PING_TIMEOUT_S + CLOSE_TIMEOUT_S <= 10


async def test_only_the_latest_telemetry_waits_for_a_console_that_is_away(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        site = Site(tmp_path, silent.getsockname()[1])
        await until(lambda: site.stage.node._reporter.number >= 3)
        waiting = []
        while (message := site.stage.node.outbox.take(site.stage.now)) is not None:
            waiting.append(type(message).__name__)
        assert waiting.count("Telemetry") == 1
        assert waiting.count("Status") == 1
        await site.close()


async def test_nonsense_from_the_console_costs_nothing_but_itself(console, site):
    await until(lambda: site.link.is_up)
    await console.send(b"\xc1 not msgpack")
    await console.send(EventAck(2**62))
    await console.desire(desired())
    await until(lambda: console.statuses and console.status.observed_generation == 1)
    assert len(console.hellos) == 1


async def test_a_token_that_is_not_known_is_told_once(console, tmp_path, caplog):
    site = Site(tmp_path, console.port, token="stolen")
    await until(lambda: console.handshakes >= 2)
    assert caplog.text.count("enrol the node again") == 1
    await site.close()


async def test_a_console_of_another_protocol_is_not_obeyed(console, site, caplog):
    console.protocol = 99
    await until(lambda: "update the older of the two" in caplog.text)
    assert not site.link.is_up


async def test_a_cut_node_is_away_for_as_long_as_asked(console, site):
    await until(lambda: site.link.is_up)
    site.link.cut(1.0)
    await asyncio.sleep(0.8)
    assert len(console.hellos) == 1
    await until(lambda: len(console.hellos) == 2)


def test_a_fleet_that_is_cut_off_in_one_moment_comes_back_spread_and_within_half_a_minute():
    first = sorted(retry_after_s(0) for _ in range(1_000))
    assert first[100] < 0.2
    assert first[-1] > 0.7
    assert all(retry_after_s(attempt) <= 10.0 for attempt in range(100))


async def test_a_defect_in_following_a_message_costs_neither_the_connection_nor_the_link(
    console, site, monkeypatch, caplog
):
    await until(lambda: site.link.is_up)
    received = site.stage.node.received
    monkeypatch.setattr(site.stage.node, "received", lambda *_: 1 / 0)
    await console.desire(desired())
    await until(lambda: "could not be followed" in caplog.text)
    monkeypatch.setattr(site.stage.node, "received", received)
    await console.desire(desired(generation=2))
    await until(lambda: console.statuses and console.status.observed_generation == 2)
    assert len(console.hellos) == 1


async def test_a_defect_in_what_is_sent_costs_connections_until_it_is_gone(
    console, site, monkeypatch, caplog
):
    await until(lambda: site.link.is_up)
    monkeypatch.setattr(site.stage.node.outbox, "take", lambda now: 1 / 0)
    await until(lambda: "this agent failed: ZeroDivisionError" in site.link.complaint)
    await until(lambda: len(console.hellos) >= 3)
    monkeypatch.undo()
    seen = len(console.telemetry)
    await until(lambda: len(console.telemetry) > seen)
    assert caplog.text.count("the connection failed") == 1


async def test_a_welcome_with_a_number_that_no_event_has_is_refused(console, site, caplog):
    await until(lambda: site.link.is_up)
    console.acked_seq = 2**63
    await console.drop()
    await until(lambda: "no event has the number" in caplog.text)
    console.acked_seq = 0
    await until(lambda: site.link.is_up)
