"""What happens to single messages between a node and its console harms nothing in the end, and is
told in one line."""

from __future__ import annotations

import logging

import msgspec
import pytest

from agents.orders import NONCES_KEPT
from agents.wire import codec
from agents.wire.messages import DesiredState, Envelope, EventAck, Unchanged
from tests.agents.cast import KEY, PLACEMENT_ID, desired, placement
from tests.agents.fake_console import until
from tests.agents.network.proxy import Fault
from tests.agents.network.site import be_quick, trial

pytestmark = pytest.mark.timeout(60)

UP = ("hello", "events", "status", "telemetry")
DOWN = ("welcome", "event_ack", "envelope")
OTHER_KEY = codec.node_key(b"another console", "17")


@pytest.fixture
async def it(tmp_path, monkeypatch):
    be_quick(monkeypatch)
    async with trial(tmp_path) as made:
        await made.order(desired())
        await made.settled()
        yield made


def lines(caplog, since=0):
    return [
        record.getMessage()
        for record in caplog.records[since:]
        if record.levelno >= logging.WARNING and record.name.startswith("agents")
    ]


@pytest.mark.parametrize("kind", [*UP, *DOWN])
@pytest.mark.parametrize("fault", Fault)
async def test_whatever_happens_to_a_message_nothing_is_lost(it, fault, kind, caplog):
    lane = it.proxy.up if kind in UP else it.proxy.down
    lane.harm(kind, fault)
    told = 1
    if kind in ("hello", "welcome"):
        it.proxy.cut()
        told += 1
    it.site.tell()
    await it.order(desired(placement()))
    await until(lambda: lane.suffered == [(kind, fault)])
    it.site.tell()
    await it.settled()
    assert it.site.jobs.started == [PLACEMENT_ID]
    assert len(lines(caplog)) <= told, lines(caplog)


async def test_an_order_with_a_wrong_signature_is_refused_in_one_line(it, caplog):
    it.console.key = OTHER_KEY
    await it.order(desired(placement()))
    await until(lambda: "enrol the node again" in it.console.status.refused)
    assert it.site.orders.generation == 1
    it.console.key = KEY
    await it.settled()
    assert set(lines(caplog)) == {next(iter(lines(caplog)))}
    assert "refused an order: envelope signed with key" in lines(caplog)[0]


async def test_an_old_generation_is_refused_in_one_line(it, caplog):
    await it.order(desired(placement()))
    await it.settled()
    await it.console.send_order(desired())
    await until(lambda: lines(caplog))
    await it.settled()
    (line,) = lines(caplog)
    assert line == "node-01: refused an order: generation 1 is older than 2"
    assert PLACEMENT_ID in it.site.jobs.facts


async def test_a_recorded_envelope_renews_nothing_once_its_nonce_is_old(it, caplog, monkeypatch):
    recorded = []
    send = it.console.send

    async def record(message):
        if isinstance(message, Envelope):
            recorded.append(message)
        await send(message)

    monkeypatch.setattr(it.console, "send", record)
    await until(lambda: recorded)
    first = recorded[0]
    for _ in range(NONCES_KEPT):  # a few minutes of statuses
        it.site.orders.fresh_nonce()
    await send(first)
    await until(lambda: lines(caplog))
    await it.settled()
    # The console's own, under way meanwhile, may answer a status from before them too.
    (line,) = set(lines(caplog))
    assert line.endswith("refused an order: generation 1 answers no status of the last minutes")


async def test_a_renewal_that_overtakes_its_state_is_made_up_for(it, caplog):
    """The console sends a state and renews it; the renewal comes first."""
    state = msgspec.structs.replace(desired(placement()), generation=2)
    it.generation = 2
    await it.console.send_order(Unchanged(2, "", 600.0))
    await until(lambda: "renews generation 2" in caplog.text)
    await it.console.desire(state)
    await it.settled()
    assert isinstance(it.site.orders.desired, DesiredState)


async def test_acknowledgements_of_what_never_was_change_nothing(it):
    await it.console.send(EventAck(2**63))
    await it.console.send(EventAck(-1))
    it.site.tell(3)
    await it.settled()
