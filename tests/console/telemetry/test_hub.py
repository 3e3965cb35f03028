from __future__ import annotations

import asyncio

import pytest
from channels.db import database_sync_to_async as in_database

from console.inventory.models import Gpu
from console.telemetry import hub as hub_module
from console.telemetry import latest
from console.telemetry.hub import Hub
from tests.console.telemetry import cast
from tests.console.telemetry.fleet import facts, grid

pytestmark = pytest.mark.django_db(transaction=True)


class Link:
    """A node's connection that only remembers what the hub asked of it."""

    def __init__(self, connection: str = "here:1", token_sha256: str = "") -> None:
        self.connection, self.token_sha256 = connection, token_sha256
        self.heard = False
        self.generations: list[int] = []
        self.left: list[int] = []

    def generation_is(self, generation: int) -> None:
        self.generations.append(generation)

    def renew(self) -> None: ...

    def leave(self, code: int, reason: str) -> None:
        self.left.append(code)


async def until(check) -> None:
    async with asyncio.timeout(8):
        while not check():
            await asyncio.sleep(0.01)


async def test_a_bell_asks_for_the_generation_of_its_nodes_alone(hub, monkeypatch):
    monkeypatch.setattr(hub_module, "POLL_NODES_S", 60)
    node = await in_database(cast.node)()
    hub.start()
    link = Link(token_sha256=node.token_sha256)
    await hub.attach(node.pk, link)
    await hub._hear("muxflow:bell:nodes", f"[{node.pk}, 999]".encode())
    assert link.generations[-1] == node.generation


async def test_a_connection_elsewhere_takes_over(hub):
    link = Link(f"{hub.process}:1")
    await hub.attach(7, link)
    await hub._hear("muxflow:links", f'[7, "{hub.process}:2"]'.encode())
    assert link.left == []
    await hub._hear("muxflow:links", b'[7, "other:1"]')
    assert link.left == [4409]


@pytest.mark.parametrize("data", [b"\xff", b"{", b"7", b'["x"]', b'[[1], "a"]', b'{"no": "op"}'])
@pytest.mark.parametrize("channel", ["bell:nodes", "ui", "links", "other"])
async def test_a_bell_that_makes_no_sense_is_counted(hub, channel, data):
    await hub._hear(f"muxflow:{channel}", data)
    assert sum(hub.refused.counts.values()) == 1


async def test_a_node_that_is_gone_loses_its_connection(hub):
    hub.start()
    link = Link(token_sha256="a" * 64)
    await hub.attach(12345, link)
    await until(lambda: link.left == [4401])


async def test_nodes_that_were_heard_are_marked_seen(hub, monkeypatch):
    monkeypatch.setattr(hub_module, "SEEN_S", 0.05)
    node = await in_database(cast.node)()
    hub.start()
    link = Link(token_sha256=node.token_sha256)
    link.heard = True
    await hub.attach(node.pk, link)
    async with asyncio.timeout(20):
        while node.last_seen_at is None:
            await in_database(node.refresh_from_db)()
    assert not link.heard


async def test_new_gpus_appear_and_keep_the_values_of_the_old(hub):
    node = await in_database(cast.node)()
    hub.start()
    await until(lambda: len(hub.grid.facts.ids) == 2)
    hub.grid.values[0, :] = 7
    await in_database(cast.gpu)(node, 2)
    hub.want_layout()
    await until(lambda: len(hub.grid.facts.ids) == 3)
    assert hub.grid.values[0, 0] == 7
    assert hub.history.ids.tolist() == hub.grid.facts.ids.tolist()
    assert len(hub.audience.cells) == 3


@pytest.mark.parametrize(
    ("told", "shown_as", "wanted"),
    [
        ([11, 12], {}, False), ([11, 99], {}, True), ([11, 12], {"agent": False}, True),
        ([11, 12], {"lost": True}, True), ([], {"lost": True}, False),
    ],
)  # fmt: skip
def test_a_hello_of_what_is_shown_otherwise_has_the_inventory_read(told, shown_as, wanted):
    fresh = Hub()
    fresh.grid = grid({}, {})
    for name, value in shown_as.items():
        getattr(fresh.grid.facts, name)[:] = value
    fresh.look_for(told)
    assert fresh._layout_wanted.is_set() == wanted


async def test_a_mode_that_changed_is_shown_without_a_new_layout(hub):
    await in_database(cast.node)()
    hub.start()
    await until(lambda: hub.layout.epoch)
    epoch = hub.layout.epoch
    await in_database(Gpu.objects.update)(sharing_mode="observe")
    hub.want_layout()
    await until(lambda: not hub.grid.facts.enforce.any())
    assert hub.layout.epoch == epoch


async def test_a_loop_whose_step_fails_goes_on(hub, monkeypatch):
    await in_database(cast.node)()
    calls = []

    def broken(*arguments):
        calls.append(1)
        raise RuntimeError("broken for a while")

    with monkeypatch.context() as patch:
        patch.setattr(latest, "cells", broken)
        hub.start()
        await until(lambda: len(calls) >= 2)
    await until(lambda: len(hub.audience.cells) == 2)


async def test_it_can_be_stopped_and_started_again(hub):
    await in_database(cast.node)()
    for _ in range(2):
        hub.start()
        await until(lambda: hub.layout.epoch)
        await hub.stop()
        assert not hub.is_running


def test_what_this_process_never_saw_is_none():
    fresh = Hub()
    assert fresh.live(11) is None
    fresh.grid = grid({})
    assert fresh.live(11) is not None
    assert fresh.live(99) is None
    fresh.grid = type(fresh.grid)(facts(1))
    assert fresh.live(11) is None
