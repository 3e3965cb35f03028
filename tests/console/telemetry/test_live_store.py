from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest
from channels.db import database_sync_to_async as in_database

from agents.wire.names import GpuState
from console.errors import Unavailable
from console.telemetry import layout, live_store
from console.telemetry.hub import Hub
from console.telemetry.latest import Grid
from tests.console.telemetry import cast
from tests.console.telemetry.fleet import CARD_BYTES, NOW, facts, grid


def packed(process: str, grid: Grid, now: float) -> bytes:
    return live_store.pack(process, grid, live_store.fresh(grid, now))


def test_a_blob_holds_what_this_process_received_itself():
    mine = grid({"sm_activity": 10}, {"sm_activity": 20})
    mine.local[1] = False
    shared = live_store.unpack(packed("a", mine, NOW))
    assert shared is not None
    assert shared.ids.tolist() == [11]


def test_a_blob_holds_nothing_old():
    shared = live_store.unpack(packed("a", grid({}), NOW + 31))
    assert shared is not None
    assert len(shared.ids) == 0


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x97\xa1a\x01\xc4\x00\xc4\x00\xc4\x01a\xc4\x00\xc4\x00"]
)
def test_a_blob_of_another_version_is_left_out(data):
    assert live_store.unpack(data) is None


def test_what_is_packed_comes_back_with_missing_apart_from_zero():
    shared = live_store.unpack(packed("a", grid({"sm_activity": None, "power": 0}), NOW))
    assert shared is not None
    gpu = live_store.newest([shared], NOW + 1)[11]
    assert (gpu.sm_activity_percent, gpu.power_w) == (None, 0.0)
    assert (gpu.state, gpu.age_s) == (GpuState.HEALTHY, 1.0)
    assert gpu.memory_percent == pytest.approx(40 * (1 << 30) / CARD_BYTES * 100)


def test_of_two_processes_the_newer_sample_counts():
    old, new = grid({"sm_activity": 1}), grid({"sm_activity": 2}, at=NOW + 1)
    blobs = [live_store.unpack(packed(name, one, NOW)) for name, one in (("a", new), ("b", old))]
    found = live_store.newest([blob for blob in blobs if blob], NOW + 1)
    assert found[11].sm_activity_percent == 2


def test_without_redis_reading_says_so():
    with pytest.raises(Unavailable, match="Redis"):
        live_store.read()


@pytest.mark.integration
def test_workers_read_what_a_web_process_put_down(with_redis):
    live_store.publish("web-1", grid({"sm_activity": 33}, at=time.time()))
    assert live_store.read()[11].sm_activity_percent == 33


@pytest.mark.integration
def test_a_grid_is_filled_with_what_others_know(with_redis):
    live_store.publish("web-1", grid({"sm_activity": 33}, at=time.time()))
    mine = Grid(facts(3))
    live_store.fill(mine)
    assert mine.column("sm_activity")[0] == 33
    assert np.isnan(mine.column("sm_activity")[1])


async def sees(hub: Hub, value: float) -> None:
    async with asyncio.timeout(20):
        while not (hub.grid.column("sm_activity") == value).any():
            await asyncio.sleep(0.02)


def serve(hub: Hub) -> None:
    """A hub of two GPUs that reads no inventory."""
    hub._follow_layout = asyncio.Event().wait  # type: ignore[method-assign,assignment]
    hub.grid = Grid(facts(2))
    hub.start()


@pytest.mark.integration
async def test_two_processes_show_each_others_gpus(with_redis):
    a, b = Hub(), Hub()
    serve(a)
    serve(b)
    a.grid = grid({"sm_activity": 61}, {}, at=time.time())
    await sees(b, 61)
    assert not b.grid.local.any()
    await asyncio.gather(a.stop(), b.stop())


def put_down_elsewhere() -> None:
    node = cast.node()
    there = grid({"sm_activity": 33}, {}, at=time.time())
    there.facts.ids[:] = list(node.gpus.order_by("pk").values_list("pk", flat=True))
    live_store.publish("web-1", there)


@pytest.fixture
def late_layout(monkeypatch) -> None:
    """The inventory is read after what others know was taken up for the first time."""
    taken, take_up, load = threading.Event(), live_store.take_up, layout.load

    async def noted(*args):
        found = await take_up(*args)
        taken.set()
        return found

    def late(*args):
        assert taken.wait(10)
        return load(*args)

    monkeypatch.setattr(live_store, "take_up", noted)
    monkeypatch.setattr(layout, "load", late)


@pytest.mark.integration
@pytest.mark.django_db(transaction=True)
async def test_a_process_knows_the_fleet_once_it_has_what_others_know(with_redis, hub, late_layout):
    await in_database(put_down_elsewhere)()
    assert not hub.knows_the_fleet
    hub.start()
    async with asyncio.timeout(20):
        while not hub.knows_the_fleet:
            await asyncio.sleep(0)
    assert hub.grid.column("sm_activity")[0] == 33


@pytest.mark.integration
async def test_a_redis_that_dies_and_returns_costs_nothing_but_time(own_redis):
    a, b = Hub(), Hub()
    serve(a)
    serve(b)
    a.grid = grid({"sm_activity": 61}, {}, at=time.time())
    await sees(b, 61)
    own_redis.kill()
    await asyncio.sleep(1.2)
    assert all(not task.done() for task in (*a._tasks, *b._tasks))
    own_redis.start()
    a.grid = grid({"sm_activity": 62}, {}, at=time.time())
    await sees(b, 62)
    await asyncio.gather(a.stop(), b.stop())
