"""An agent that was out of reach tells over its real connection what was missed."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
import pytest_asyncio
import uvicorn
from channels.db import database_sync_to_async as in_database

from agents import backfill
from agents import link as link_module
from agents.link import Link
from console.history import ranges
from console.inventory.models import Gpu
from console.telemetry.gateway import AgentGateway
from console.telemetry.sockets import Socket
from tests.agents.cast import Stage
from tests.console.telemetry import cast
from tests.console.telemetry.conftest import hub, quiet_bells, without_redis  # noqa: F401

pytestmark = pytest.mark.django_db(transaction=True)

# Seconds that the node measured while nobody heard it: two messages.
MISSED_S = 70
TICKS_A_SECOND = 10


class Server(uvicorn.Server):
    """In the loop of the test, with the socket of the product."""

    async def begin(self) -> int:
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup()
        return int(self.servers[0].sockets[0].getsockname()[1])


@pytest_asyncio.fixture
async def port(hub):  # noqa: F811
    server = Server(
        uvicorn.Config(AgentGateway.as_asgi(), port=0, ws=Socket, lifespan="off", log_config=None)
    )
    yield await server.begin()
    await server.shutdown()


class Agent:
    """A real node with a real connection, whose clock is ahead by `ahead_s`."""

    def __init__(self, folder, port: int, ahead_s: float, monkeypatch) -> None:
        self.ahead_s, self.stage = ahead_s, Stage(folder, now=time.monotonic(), records=True)
        clock = SimpleNamespace(monotonic=time.monotonic, time=self.wall)
        monkeypatch.setattr(link_module, "time", clock)
        self.link = Link(f"ws://127.0.0.1:{port}/", cast.TOKEN, "node-01", self.stage.node)
        self.tasks: list[asyncio.Task] = []

    def wall(self) -> float:
        return time.time() + self.ahead_s

    def measure(self, seconds: int) -> None:
        """The seconds up to now, as if they had passed."""
        node, now, wall = self.stage, time.monotonic(), self.wall()
        for tick in range(-seconds * TICKS_A_SECOND, 0):
            node.now, node.wall_s = now + tick / TICKS_A_SECOND, wall + tick / TICKS_A_SECOND
            node.tick(tick % TICKS_A_SECOND)

    def connect(self) -> None:
        self.tasks = [asyncio.create_task(self.link.run()), asyncio.create_task(self._live())]

    async def _live(self) -> None:
        for tick in range(10_000):
            self.stage.now, self.stage.wall_s = time.monotonic(), self.wall()
            self.stage.tick(tick)
            await asyncio.sleep(1 / TICKS_A_SECOND)

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        self.stage.die()


async def eventually(check) -> None:
    async with asyncio.timeout(8):
        while not check():
            await asyncio.sleep(0.02)


def known(since: float) -> tuple[int, int, set[bool]]:
    """How many seconds of the first GPU there are, how many of its pool, and how they are dated."""
    gpu = Gpu.objects.select_related("node").order_by("pk").first()
    names, until = ["sm_activity"], since + MISSED_S + 60
    of_gpu = ranges.chart(ranges.Gpu(gpu.pk), names, since, until, now=until)
    of_pool = ranges.chart(ranges.Pool(gpu.node.pool_id), names, since, until, now=until)
    dated = zip(of_gpu.by_receipt, of_gpu.samples, strict=True)
    return sum(of_gpu.samples), sum(of_pool.samples), {flag for flag, count in dated if count}


@pytest.mark.parametrize("ahead_s", [0.0, -3_600.0])
async def test_what_was_missed_comes_over_the_socket_once(
    hub, port, tmp_path, monkeypatch, ahead_s  # noqa: F811
):  # fmt: skip
    monkeypatch.setattr(backfill, "FIRST_AFTER_S", (1.2, 1.2))  # when a live second was heard
    monkeypatch.setattr(backfill, "EVERY_S", 0.0)
    began = time.time() - MISSED_S
    seen = datetime.fromtimestamp(began, UTC) - timedelta(seconds=30)
    await in_database(cast.node)("node-01", gpus=0, last_seen_at=seen)
    agent = Agent(tmp_path, port, ahead_s, monkeypatch)
    agent.measure(MISSED_S)
    missed = began - 30 + ahead_s, agent.wall()
    agent.connect()
    filler, told = agent.stage.node.outbox.backfill, list[float]()
    acknowledge = filler.acknowledge

    def acknowledged(until: float, now: float) -> None:
        told.append(until)
        acknowledge(until, now)

    monkeypatch.setattr(filler, "acknowledge", acknowledged)
    await eventually(lambda: len(told) == 2)
    written = hub.backfills.seconds_total
    assert written >= 2 * (MISSED_S - 1)
    assert await in_database(known)(began - 30) == (written // 2, written, {ahead_s != 0.0})

    filler.begin(*missed, time.monotonic() - 2)
    await eventually(lambda: len(told) == 4)
    assert hub.backfills.seconds_total == written
    assert await in_database(known)(began - 30) == (written // 2, written, {ahead_s != 0.0})
    await agent.close()
