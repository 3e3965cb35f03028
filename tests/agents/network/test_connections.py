"""What happens to whole connections between a node and its console."""

from __future__ import annotations

import logging

import pytest

from agents.wire.names import EndReason, EventKind
from tests.agents.cast import PLACEMENT_ID, desired, placement
from tests.agents.fake_console import until
from tests.agents.network.site import be_quick, trial

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def it(tmp_path, monkeypatch):
    be_quick(monkeypatch)
    async with trial(tmp_path) as made:
        await made.order(desired(placement()))
        await made.settled()
        yield made


def warnings(caplog):
    return [
        record.getMessage().partition("/ws/agent/: ")[2] or record.getMessage()
        for record in caplog.records
        if record.levelno >= logging.WARNING and record.name.startswith("agents")
    ]


async def test_a_cut_network_is_told_once_and_nothing_of_that_time_is_lost(it, caplog):
    it.proxy.unplug()
    await until(lambda: not it.site.link.is_up)
    it.site.tell(5)
    tried = it.proxy.accepted
    await until(lambda: it.proxy.accepted >= tried + 3)
    it.proxy.heal()
    await it.settled()
    assert warnings(caplog) == ["the connection broke off"]
    assert it.site.jobs.started == [PLACEMENT_ID]


async def test_a_console_that_restarts_is_told_once_and_finds_all_as_it_was(it, caplog):
    it.console._server.close(close_connections=True)
    await until(lambda: not it.site.link.is_up)
    it.site.tell(5)
    await it.console.restart(away_s=0.3)
    await it.settled()
    assert warnings(caplog) == ["it closed the connection (1001)"]
    assert it.site.jobs.started == [PLACEMENT_ID]


async def test_a_half_open_connection_is_noticed_told_once_and_replaced(it, caplog):
    it.proxy.blackhole()
    it.site.tell(5)
    await until(lambda: not it.site.link.is_up)
    tried = it.proxy.accepted
    await until(lambda: it.proxy.accepted >= tried + 1)
    it.proxy.heal()
    await it.settled()
    assert warnings(caplog) == ["it did not answer a ping within 1.5 s"]


async def test_a_console_that_accepts_and_says_nothing_is_told_once(it, caplog):
    it.console.answers = False
    it.proxy.cut()
    hellos, tried = len(it.console.hellos), it.proxy.accepted
    await until(lambda: it.proxy.accepted >= tried + 2)
    assert len(it.console.hellos) == hellos
    assert it.site.link.complaint == "it did not answer the hello within 1.5 s"
    it.console.answers = True
    await it.settled()
    assert warnings(caplog) == ["the connection broke off"]


async def test_a_slow_connection_carries_all_that_waits_however_much_it_is(it):
    """One batch of all would take three seconds, and a ping behind it too long."""
    it.proxy.unplug()
    await until(lambda: not it.site.link.is_up)
    it.site.tell(45, why="x" * 500)
    it.proxy.heal()
    it.proxy.up.bytes_per_s = 8_000
    await it.settled(timeout_s=40)
    assert len(it.console.events) >= 45


async def test_a_node_that_cannot_send_keeps_no_more_than_the_latest(it, monkeypatch):
    it.proxy.unplug()
    await until(lambda: not it.site.link.is_up)
    outbox, offered, waiting = it.site.stage.node.outbox, [], []
    offer = outbox.offer

    def noted(telemetry, now):
        offered.append(telemetry)
        offer(telemetry, now)

    monkeypatch.setattr(outbox, "offer", noted)
    await until(lambda: len(offered) > 3)
    while (message := outbox.take(it.site.stage.now)) is not None:
        waiting.append(message)
    kinds = [type(message).__name__ for message in waiting]
    assert kinds.count("Telemetry") == kinds.count("Status") == 1
    assert waiting[-1] is offered[-1]
    it.proxy.heal()
    await it.settled()


async def test_events_that_waited_come_from_the_next_agent_and_its_jobs_go_on(it):
    it.proxy.unplug()
    await until(lambda: not it.site.link.is_up)
    it.site.tell(5)
    waiting = it.site.spool.count
    it.site.stage.state.commit()
    await it.site.die()
    it.site.begin()
    assert it.site.spool.count >= waiting
    it.proxy.heal()
    await it.settled()
    assert it.site.jobs.started == [PLACEMENT_ID]


async def test_a_job_ends_gracefully_when_its_lease_runs_out_with_the_network_cut(it):
    await it.order(desired(placement(), lease_s=0.8))
    await it.settled()
    it.proxy.unplug()
    await until(lambda: "sigterm" in it.site.jobs.asked)
    assert "kill" not in it.site.jobs.asked
    await until(lambda: not list(it.site.stage.node._guests))
    it.proxy.heal()
    await until(lambda: ended(it.console))
    assert ended(it.console) == [EndReason.LEASE_EXPIRED]
    it.check()
    assert it.site.jobs.started == [PLACEMENT_ID]  # used up: it does not start again


def ended(console):
    return [
        event.data["reason"] for event in console.events if event.kind is EventKind.PLACEMENT_ENDED
    ]


async def test_a_job_outlives_a_lease_that_is_renewed(it):
    await it.order(desired(placement(), lease_s=0.8))
    await it.settled()
    seen = len(it.console.statuses)
    await until(lambda: len(it.console.statuses) > seen + 8)  # twice the lease
    assert it.site.jobs.asked.count("sigterm") == 0
