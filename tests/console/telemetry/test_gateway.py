"""The agents' socket, spoken to as an agent would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
from channels.db import database_sync_to_async as in_database
from django.db import OperationalError

from agents.wire import codec
from agents.wire.limits import MAX_MESSAGE_BYTES
from agents.wire.messages import (
    DesiredState,
    Envelope,
    Event,
    EventAck,
    EventBatch,
    GpuInventory,
    Hello,
    Status,
    Telemetry,
    Unchanged,
    Welcome,
)
from agents.wire.names import EventKind, RuntimeKind, Signal
from console.inventory import nodes
from console.inventory.models import Node
from console.scheduling import observed
from console.telemetry import events, gateway, latest, links
from console.telemetry import hub as hub_module
from console.telemetry.gateway import AgentGateway
from console.telemetry.latest import Look
from console.telemetry.models import NodeEvent
from tests.console.telemetry import cast
from tests.console.telemetry.fleet import CARD_BYTES, sample
from tests.console.telemetry.sockets import Socket

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Agent:
    """One connection, and what came over it."""

    socket: Socket
    node: Node

    async def send(self, message: Any) -> None:
        await self.socket.send(codec.encode(message))

    async def expect(self, kind: type) -> Any:
        """The next message of this kind; envelopes are opened with the node's own key."""
        while True:
            data = await self.socket.receive()
            assert isinstance(data, bytes)
            message: Any = codec.decode_from_console(data)
            if isinstance(message, Envelope):
                message = codec.unseal(message, key_of(self.node))
            if isinstance(message, kind):
                return message

    async def closes_with(self) -> int:
        return await self.socket.closes_with()


def key_of(node: Node) -> bytes:
    return codec.node_key(b"only-for-a-checkout", str(node.pk))


def hello(sender: Node, **facts: Any) -> Hello:
    gpus = tuple(
        GpuInventory(i, f"GPU-{sender.name}-{i}", "A100 SXM4", CARD_BYTES, power_limit_w=400)
        for i in range(2)
    )
    given = {
        "node": sender.name, "protocol": (1, 1), "agent_version": "0.1.0", "boot_id": "b1",
        "generation": 0, "nonce": "n0", "runtime": RuntimeKind.SIMULATED, "gpus": gpus,
    }  # fmt: skip
    return Hello(**{**given, **facts})


def status(nonce: str, generation: int) -> Status:
    return Status(nonce, generation, {}, (), ())


def event(seq: int, kind: EventKind = EventKind.FROZEN, **facts: Any) -> Event:
    return Event(seq, str(uuid4()), kind, time.time(), gpu_index=0, **facts)


@pytest_asyncio.fixture
async def dial(hub):
    """Opens sockets, and hangs up at the end."""
    opened: list[Socket] = []

    async def dial(token: str = cast.TOKEN) -> tuple[Socket, bool]:
        headers = [(b"authorization", f"Bearer {token}".encode())]
        socket = Socket(AgentGateway.as_asgi(), "/ws/agent/", headers=headers)
        opened.append(socket)
        return socket, await socket.open()

    yield dial
    for socket in opened:
        await socket.hang_up()


@pytest.fixture
def connect(dial):
    async def connect(node: Node | None = None, **facts: Any) -> Agent:
        node = node or await in_database(cast.node)()
        socket, accepted = await dial()
        assert accepted
        agent = Agent(socket, node)
        await agent.send(hello(node, **facts))
        return agent

    return connect


async def eventually(check) -> None:
    async with asyncio.timeout(8):
        while not check():
            await asyncio.sleep(0.01)


async def test_an_unknown_token_is_turned_away(dial):
    _, accepted = await dial("somebody-else")
    assert not accepted


async def test_a_hello_is_answered_with_welcome_and_signed_desired_state(connect):
    agent = await connect()
    welcome = await agent.expect(Welcome)
    assert (welcome.protocol, welcome.acked_seq) == (1, 0)
    state = await agent.expect(DesiredState)
    assert [gpu.index for gpu in state.gpus] == [0, 1]
    assert state.nonce == "n0"
    assert state.lease_s > 0


async def test_the_generation_rises_above_the_one_the_agent_observed(connect):
    agent = await connect(generation=500)
    assert (await agent.expect(DesiredState)).generation > 500


async def test_a_hello_of_another_node_is_refused(dial):
    node = await in_database(cast.node)()
    socket, _ = await dial()
    agent = Agent(socket, node)
    await agent.send(hello(node, node="node-08"))
    assert await agent.closes_with() == 4400


async def test_a_protocol_from_the_future_is_refused(connect):
    agent = await connect(protocol=(7, 9))
    assert await agent.closes_with() == 4406


async def test_a_change_of_desired_state_is_sent_within_the_poll(connect):
    agent = await connect()
    first = await agent.expect(DesiredState)
    await agent.send(status("n1", first.generation))
    await in_database(nodes.touch)([agent.node.pk], cast.T)
    second = await agent.expect(DesiredState)
    assert second.generation == first.generation + 1
    assert second.nonce == "n1"


async def test_a_renewal_echoes_the_latest_nonce(connect, monkeypatch):
    monkeypatch.setattr(links, "RENEW_AFTER_S", 0.2)
    agent = await connect()
    state = await agent.expect(DesiredState)
    await agent.send(status("n7", state.generation))
    renewal = await agent.expect(Unchanged)
    while renewal.nonce != "n7":
        renewal = await agent.expect(Unchanged)
    assert renewal.generation == state.generation


async def test_a_state_that_never_arrived_is_sent_again_instead_of_renewed(connect, monkeypatch):
    monkeypatch.setattr(links, "RENEW_AFTER_S", 0.2)
    agent = await connect()
    state = await agent.expect(DesiredState)
    await agent.send(status("n1", state.generation - 1))
    assert (await agent.expect(DesiredState)).generation == state.generation


async def test_no_lease_is_renewed_while_the_database_is_silent(connect, hub, monkeypatch):
    agent = await connect()
    await agent.expect(DesiredState)
    monkeypatch.setattr(links, "POLL_TRUSTED_S", -1.0)
    assert not hub.links.may_renew


async def test_telemetry_reaches_the_grid_without_the_database(connect, hub):
    agent = await connect()
    await agent.expect(DesiredState)
    await eventually(lambda: len(hub.grid.facts.ids) == 2)
    await agent.send(Telemetry(1, time.time(), (sample(0, sm_activity=42.0), sample(1))))
    await eventually(lambda: hub.grid.column(Signal.SM_ACTIVITY)[0] == 42.0)
    assert latest.looks(hub.grid, time.time()).tolist() == [Look.OK, Look.OK]


async def test_of_statuses_only_news_are_written(connect, hub, monkeypatch):
    monkeypatch.setattr(hub_module, "WRITE_STATUSES_S", 0.01)
    applied: list[str] = []
    monkeypatch.setattr(
        observed, "apply_statuses", lambda told, now: applied.extend(s.nonce for s in told.values())
    )
    agent = await connect()
    state = await agent.expect(DesiredState)
    for nonce in ("n1", "n2", "n3"):
        await agent.send(status(nonce, state.generation))
        await agent.send(EventBatch((event(1),)))
        await agent.expect(EventAck)
        await eventually(lambda: applied == ["n1"])
    await agent.send(status("n4", state.generation + 1))
    await eventually(lambda: applied == ["n1", "n4"])


async def test_a_status_waits_for_a_database_that_does_not_answer(connect, hub, monkeypatch):
    monkeypatch.setattr(hub_module, "WRITE_STATUSES_S", 0.01)
    answers = iter([OperationalError("gone"), None])
    applied: list[str] = []

    def apply(told, now) -> None:
        if error := next(answers):
            raise error
        applied.extend(one.nonce for one in told.values())

    monkeypatch.setattr(observed, "apply_statuses", apply)
    agent = await connect()
    await agent.expect(DesiredState)
    await agent.send(status("n1", 1))
    await eventually(lambda: applied == ["n1"])


async def test_events_are_acknowledged_once_they_are_stored(connect):
    agent = await connect()
    await agent.expect(Welcome)
    batch = EventBatch((event(1), event(2)))
    await agent.send(batch)
    assert (await agent.expect(EventAck)).seq == 2
    await agent.send(batch)  # the acknowledgement was lost: it is sent again
    assert (await agent.expect(EventAck)).seq == 2
    assert await in_database(NodeEvent.objects.count)() == 2


async def test_events_wait_for_a_database_that_does_not_answer(connect, monkeypatch):
    monkeypatch.setattr(gateway, "RETRY_S", 0.01)
    agent = await connect()
    await agent.expect(Welcome)
    answers: Iterator[Any] = iter([OperationalError("gone"), OperationalError("gone"), 1])

    def persist(batches, now) -> dict[int, int]:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return dict.fromkeys(batches, answer)

    monkeypatch.setattr(events, "persist_many", persist)
    await agent.send(EventBatch((event(1),)))
    assert (await agent.expect(EventAck)).seq == 1


@pytest.mark.parametrize("raw", [b"\xc1 not MessagePack", codec.encode(Welcome(1, 0.0, 0))])
async def test_garbage_is_counted_with_its_reason_and_costs_nothing_else(connect, hub, raw):
    agent = await connect()
    await agent.expect(Welcome)
    await agent.socket.send(raw)
    await eventually(lambda: hub.refused.counts["message: not of this protocol"] == 1)
    await agent.send(EventBatch((event(1),)))
    assert (await agent.expect(EventAck)).seq == 1


async def test_what_comes_before_the_hello_is_counted_and_costs_nothing_else(dial, hub):
    node = await in_database(cast.node)()
    socket, _ = await dial()
    agent = Agent(socket, node)
    await agent.send(EventBatch(()))
    await eventually(lambda: hub.refused.counts["message: before the hello"] == 1)
    await agent.send(hello(node))
    await agent.expect(DesiredState)


@pytest.mark.parametrize(
    ("mangled", "why"),
    [
        (lambda raw: raw[:-3], "truncated"),
        (lambda raw: raw.replace(b"simulated", b"imaginary"), "Invalid enum value"),
    ],
    ids=["cut short", "of an unknown runtime"],
)
async def test_a_hello_that_cannot_be_read_is_refused_with_the_reason(dial, mangled, why):
    node = await in_database(cast.node)()
    socket, _ = await dial()
    for _ in range(2):  # the second finds nobody
        await socket.send(mangled(codec.encode(hello(node))))
    code, reason = await socket.closing()
    assert code == 4400
    assert why in reason
    assert await socket.receive_nothing()


async def test_events_are_not_stored_while_some_before_them_are_missing(connect, hub):
    agent = await connect()
    await agent.expect(Welcome)
    await agent.send(EventBatch((event(3),), 2))  # the batch with 1 and 2 was lost on its way
    await eventually(lambda: hub.refused.counts["message: refused by the rules"] == 1)
    await agent.send(EventBatch((event(1), event(2)), 0))
    assert (await agent.expect(EventAck)).seq == 2
    await agent.send(EventBatch((event(3),), 2))
    assert (await agent.expect(EventAck)).seq == 3


async def test_telemetry_that_was_overtaken_does_not_come_back(connect, hub):
    agent = await connect()
    await agent.expect(DesiredState)
    await eventually(lambda: len(hub.grid.facts.ids) == 2)
    for number, percent in ((5, 42.0), (4, 99.0)):
        await agent.send(Telemetry(number, time.time(), (sample(0, sm_activity=percent),)))
    await eventually(lambda: hub.refused.counts["telemetry: no newer than what came before"] == 1)
    await eventually(lambda: hub.grid.column(Signal.SM_ACTIVITY)[0] == 42.0)


async def test_text_is_counted_and_ignored(dial, hub):
    await in_database(cast.node)()
    socket, _ = await dial()
    await socket.send("hello?")
    await eventually(lambda: hub.refused.counts["message: text instead of MessagePack"] == 1)


async def test_a_message_beyond_the_limit_ends_the_connection(connect):
    agent = await connect()
    await agent.expect(Welcome)
    await agent.socket.send(bytes(MAX_MESSAGE_BYTES + 1))
    assert await agent.closes_with() == 1009


async def test_a_newer_connection_closes_the_older(connect, hub):
    older = await connect()
    await older.expect(DesiredState)
    newer = await connect(older.node)
    await newer.expect(DesiredState)
    assert await older.closes_with() == 4409
    await older.socket.hang_up()
    await newer.send(status("n1", 1))
    await in_database(nodes.touch)([newer.node.pk], cast.T)
    await newer.expect(DesiredState)  # the end of the older did not take the newer with it


async def test_a_token_that_was_replaced_ends_the_connection(connect):
    agent = await connect()
    await agent.expect(DesiredState)
    await in_database(Node.objects.filter(pk=agent.node.pk).update)(token_sha256="0" * 64)
    assert await agent.closes_with() == 4401


async def test_an_agent_that_hangs_up_while_we_send_is_no_error(connect, caplog, monkeypatch):
    agent = await connect()
    await agent.expect(DesiredState)

    async def gone(self, message) -> None:
        raise OSError("the client is gone")

    monkeypatch.setattr(AgentGateway, "_tell", gone)
    await agent.send(EventBatch((event(1),)))
    await asyncio.sleep(0.1)
    await agent.socket.hang_up()
    assert "could not be worked off" not in caplog.text


async def test_silence_after_connecting_is_ended(dial, monkeypatch):
    monkeypatch.setattr(gateway, "HELLO_DEADLINE_S", 0.05)
    node = await in_database(cast.node)()
    socket, _ = await dial()
    assert await Agent(socket, node).closes_with() == 4408


async def test_more_messages_than_a_node_may_send_are_dropped_and_counted(
    connect, hub, monkeypatch
):
    monkeypatch.setattr(gateway, "MESSAGES_AT_ONCE", 3.0)
    monkeypatch.setattr(gateway, "PAUSE_S", 0.01)
    agent = await connect()
    await agent.expect(DesiredState)
    for number in range(8):
        await agent.send(Telemetry(number, time.time(), (sample(0),)))
    await eventually(lambda: hub.refused.counts["message: too many a second"] > 0)
    await asyncio.sleep(10 / gateway.MESSAGES_PER_S)
    await agent.send(EventBatch((event(1),)))  # and it goes on
    assert (await agent.expect(EventAck)).seq == 1


async def test_of_telemetry_that_waits_only_the_newest_is_kept(connect, hub):
    agent = await connect()
    await agent.expect(DesiredState)
    await eventually(lambda: len(hub.grid.facts.ids) == 2)
    for number in range(40):
        await agent.send(Telemetry(number, time.time(), (sample(0, sm_activity=float(number)),)))
        assert len(hub.intake) <= 1
    await eventually(lambda: hub.grid.column(Signal.SM_ACTIVITY)[0] == 39.0)


async def test_a_process_that_ends_sends_its_agents_to_another(connect, hub):
    agent = await connect()
    await agent.expect(DesiredState)
    await agent.send(status("n1", 7))
    await asyncio.gather(hub.hand_over(), agent_left := asyncio.create_task(agent.closes_with()))
    assert agent_left.result() == 4410
    assert hub.links_open == 0
    node = await in_database(Node.objects.get)(pk=agent.node.pk)
    assert node.observed_generation == 7, "what it said last is written"
    assert await (await connect(node)).closes_with() == 4410
