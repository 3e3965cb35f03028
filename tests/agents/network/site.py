"""A node and its console with the misbehaving network between them, all in one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from agents import link, outbox, reports
from agents.actuators.base import Condition
from agents.link import Link
from agents.wire.messages import DesiredPlacement, DesiredState, EventAck, EventBatch, Hello, Status
from agents.wire.names import EventKind, PlacementState
from tests.agents.cast import Jobs, Stage
from tests.agents.fake_console import TOKEN, FakeConsole, until
from tests.agents.network.proxy import Proxy

# As little as a machine that is busy with other tests keeps to. Their order is the product's.
QUICK = {
    link: {
        "FIRST_RETRY_S": 0.02,
        "LONGEST_RETRY_S": 0.1,
        "OPEN_TIMEOUT_S": 1.5,
        "SEND_TIMEOUT_S": 2.5,
        "PING_EVERY_S": 0.3,
        "PING_TIMEOUT_S": 1.5,
        "CLOSE_TIMEOUT_S": 0.1,
    },
    outbox: {"ACK_TIMEOUT_S": 0.4},
    reports: {"STATUS_PERIOD_S": 0.2},
}
TICK_S = 0.02


def be_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, values in QUICK.items():
        for name, value in values.items():
            monkeypatch.setattr(module, name, value)


class StoringConsole(FakeConsole):
    """Keeps what it is told as the real one does: each event once, none before one that is
    missing; a state that was not observed is sent again; one connection a node."""

    async def restart(self, away_s: float = 0.0) -> None:
        """What it knows is in its database."""
        await self.__aexit__()
        await asyncio.sleep(away_s)
        await self.__aenter__()

    async def _greet(self, socket, hello: Hello) -> None:
        for older in self._sockets - {socket}:
            older.transport.abort()
        self._sockets.clear()
        await super()._greet(socket, hello)

    async def _take(self, socket, message) -> None:
        if isinstance(message, Hello) or socket in self._sockets:
            await super()._take(socket, message)

    async def _store(self, batch: EventBatch) -> None:
        if batch.after_seq > self.acked_seq:
            return
        for event in batch.events:
            if event.seq > self.acked_seq:
                self.events.append(event)
                self.acked_seq = event.seq
        await self.send(EventAck(self.acked_seq))

    async def _renew(self, status: Status) -> None:
        desired = self._desired
        if desired is not None and status.observed_generation < desired.generation:
            self.statuses.append(status)
            self._nonce = status.nonce
            await self.send_order(desired)
        else:
            await super()._renew(status)


class Counted(Jobs):
    """Jobs that survive their agent, and the ids that were started."""

    def __init__(self) -> None:
        super().__init__(after_adoption=Condition.ALIVE)
        self.started: list[str] = []
        self.on_start: Callable[[], None] = lambda: None

    def start(self, placement: DesiredPlacement) -> None:
        self.started.append(placement.placement_id)
        self.on_start()
        super().start(placement)

    def adopt(self, placement: DesiredPlacement) -> None:
        """What nobody started does not live."""
        known = self.facts.get(placement.placement_id)
        super().adopt(placement)
        if known is None or known.condition is not Condition.ALIVE:
            self.facts.pop(placement.placement_id)
            if known is not None:
                self.facts[placement.placement_id] = known


class Site:
    """One node on real time, which may be ended and begun again; its jobs live on."""

    def __init__(self, state_dir: Path, url: str, tls: ssl.SSLContext | None = None) -> None:
        self._state_dir, self._url, self._tls = state_dir, url, tls
        self.jobs = Counted()
        self.jobs.on_start = self._note_start
        # Starts without a lease: there must be none.
        self.unleased: list[float] = []
        self.generations: list[int] = []
        self.begin()
        self.first_seq = self.spool.acked_seq + 1

    def begin(self) -> None:
        self.stage = Stage(self._state_dir, time.monotonic(), self.jobs)
        self.link = Link(self._url, TOKEN, "node-01", self.stage.node, self._tls)
        self._tasks = [asyncio.create_task(self.link.run()), asyncio.create_task(self._beat())]

    async def die(self) -> None:
        """As by SIGKILL."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.stage.die()

    def tell(self, count: int = 1, **data: object) -> None:
        for _ in range(count):
            self.spool.append(EventKind.DEGRADED, gpu_index=0, data=data)
        self.stage.node.outbox.ring()

    @property
    def spool(self):
        return self.stage.node._spool

    @property
    def orders(self):
        return self.stage.node._orders

    def _note_start(self) -> None:
        """By the time of its tick: how long the disk takes for the intent is not its choice."""
        if not self.orders.lease_left_s(self.stage.now):
            self.unleased.append(self.stage.now)

    async def _beat(self) -> None:
        tick = 0
        while True:
            self.stage.now = time.monotonic()
            self.stage.tick(tick)
            if self.generations[-1:] != [self.orders.generation]:
                self.generations.append(self.orders.generation)
            tick += 1
            await asyncio.sleep(TICK_S)


class Trial:
    """All three, and what must hold between them in the end."""

    def __init__(self, console: StoringConsole, proxy: Proxy, site: Site) -> None:
        self.console, self.proxy, self.site = console, proxy, site
        self.generation = 0

    async def order(self, state: DesiredState) -> None:
        """As the next generation."""
        self.generation += 1
        await self.console.desire(msgspec.structs.replace(state, generation=self.generation))

    async def settled(self, timeout_s: float = 15.0) -> None:
        """Until the node follows the last order and the console knows all that happened."""
        await until(lambda: self._is_settled, timeout_s)
        self.check()

    @property
    def _is_settled(self) -> bool:
        console, site = self.console, self.site
        follows = site.orders.generation == self.generation and site.orders.refusal == ""
        told = bool(console.statuses) and console.status.observed_generation == self.generation
        return site.link.is_up and follows and told and self._runs and site.spool.count == 0

    @property
    def _runs(self) -> bool:
        wanted = {one.placement_id for one in self.site.orders.placements if one.stop is None}
        told = self.console.status.placements
        return wanted == {one.placement_id for one in told if one.state is PlacementState.RUNNING}

    def check(self) -> None:
        """Each event once and in order; no step back; no placement twice."""
        numbers = [event.seq for event in self.console.events]
        assert numbers == list(range(self.site.first_seq, self.site.spool.last_seq + 1))
        assert len({event.event_id for event in self.console.events}) == len(numbers)
        assert self.site.generations == sorted(self.site.generations)
        assert self.site.unleased == []
        assert len(set(self.site.jobs.started)) == len(self.site.jobs.started)


@contextlib.asynccontextmanager
async def trial(state_dir: Path):
    async with StoringConsole() as console, Proxy(console.port) as proxy:
        made = Trial(console, proxy, Site(state_dir, proxy.url))
        try:
            yield made
        finally:
            await made.site.die()
