"""One a web process: holds the live grid, serves agents and browsers, talks to the other processes.

All of it runs in the event loop; only the database is asked in threads. Nothing here is durable:
a hub that starts empty has the whole map again within a second or two.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

import redis.asyncio
from django.conf import settings
from django.db import InterfaceError, OperationalError, connections
from django.utils import timezone
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from console import announce
from console.errors import Unavailable
from console.inventory import bell, nodes
from console.telemetry import counts, latest, layout, live_store
from console.telemetry.audience import Audience
from console.telemetry.history import History, Series
from console.telemetry.latest import Grid, LiveGpu
from console.telemetry.layout import Layout
from console.telemetry.loops import forever
from console.telemetry.plausible import Sampled
from console.telemetry.refusals import Refusals

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TICK_S: Final = 1.0
POLL_NODES_S: Final = 2.0
SEEN_S: Final = 4.0
LAYOUT_S: Final = 10.0
LAYOUT_APART_S: Final = 0.5  # when many nodes say hello at once
DATABASE_THREADS: Final = 4
# Leases are renewed only while the database was asked this recently whether they should be.
POLL_TRUSTED_S: Final = 10.0


class AgentLink(Protocol):
    """The connection of one node, as the hub sees it (gateway.AgentGateway)."""

    connection: str
    token_sha256: str
    heard: bool  # since the hub last looked

    def generation_is(self, generation: int) -> None: ...

    def renew_if_due(self) -> None: ...

    def leave(self, code: int, reason: str) -> None: ...


class Hub:
    def __init__(self) -> None:
        self.process = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.refused = Refusals()
        self.layout: Layout = layout.empty()
        self.grid = Grid(self.layout.facts)
        self.history = History()
        self.audience = Audience(self.grid)
        self.polled_at = float("-inf")
        self._links: dict[int, AgentLink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._redis: redis.asyncio.Redis | None = None
        self._layout_wanted = asyncio.Event()
        self._nodes_channel, self._pages_channel = bell.channel(), announce.channel()
        self._links_channel = f"{settings.REDIS_PREFIX}:links"

    # --- life -------------------------------------------------------------------------------

    def start(self) -> None:
        """Run in the present event loop; does nothing when it does already."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        self._loop = loop
        self._threads = ThreadPoolExecutor(DATABASE_THREADS, "telemetry-database")
        self._redis = redis.asyncio.Redis.from_url(
            settings.REDIS_URL,
            socket_timeout=2,
            socket_connect_timeout=2,
            health_check_interval=10,
            retry=Retry(NoBackoff(), 0),
        )
        self._layout_wanted = asyncio.Event()
        self._spawn(forever("layout", self._follow_layout, LAYOUT_APART_S))
        self._spawn(forever("live map", self._turn, TICK_S))
        self._spawn(forever("live grid exchange", self._exchange, TICK_S))
        self._spawn(forever("bells", self._listen, 0))
        self._spawn(forever("generations of nodes", self._poll_nodes, POLL_NODES_S))
        self._spawn(forever("lease renewals", self._renew, 1.0))
        self._spawn(forever("nodes seen", self._tell_seen, SEEN_S))
        self._spawn(forever("counts", self._count, TICK_S))

    @property
    def is_running(self) -> bool:
        return self._loop is not None

    async def stop(self) -> None:
        """End the loops and let go of threads and connections; `start` may follow."""
        tasks, self._tasks = self._tasks, set()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._redis is not None:
            try:
                await live_store.withdraw(self._redis, self.process)
                await self._redis.aclose()
            except redis.RedisError:
                pass  # it expires by itself
        if self._threads is not None:
            await self._close_connections()
            self._threads.shutdown(wait=False, cancel_futures=True)
        self._loop = self._threads = self._redis = None

    async def _close_connections(self) -> None:
        """Each thread closes its own; none can do it for another."""
        all_here = threading.Barrier(DATABASE_THREADS)

        def close() -> None:
            with contextlib.suppress(threading.BrokenBarrierError):
                all_here.wait(timeout=1)
            connections.close_all()

        await asyncio.gather(*[self.in_thread(close) for _ in range(DATABASE_THREADS)])

    @property
    def _client(self) -> redis.asyncio.Redis:
        if self._redis is None:
            raise RuntimeError("The hub is not running; call start() in the event loop first.")
        return self._redis

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)  # the loop itself holds tasks weakly
        task.add_done_callback(self._tasks.discard)

    async def in_thread(self, work: Callable[[*Ts], T], *args: *Ts) -> T:
        """Ask the database, in one of a few threads of our own."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: _with_connection(work, *args))

    # --- agents -----------------------------------------------------------------------------

    async def attach(self, node_id: int, link: AgentLink) -> None:
        """From now on this connection speaks for the node; an older one is closed."""
        older = self._links.get(node_id)
        self._links[node_id] = link
        if older is not None and older is not link:
            older.leave(4409, "a newer connection of this node took over")
        await self._publish(self._links_channel, [node_id, link.connection])

    def detach(self, node_id: int, link: AgentLink) -> None:
        if self._links.get(node_id) is link:
            del self._links[node_id]

    def take(self, sampled: Sampled) -> None:
        self.grid.put(*sampled)

    @property
    def may_renew(self) -> bool:
        """Whether the database said recently enough which generations hold."""
        return time.monotonic() - self.polled_at <= POLL_TRUSTED_S

    async def _poll_nodes(self) -> None:
        await self._ask_generations(list(self._links))
        self.polled_at = time.monotonic()

    async def _ask_generations(self, node_ids: Iterable[int]) -> None:
        ids = [node_id for node_id in node_ids if node_id in self._links]
        if not ids:
            return
        known = await self.in_thread(counts.generations, ids)
        for node_id in ids:
            link = self._links.get(node_id)
            generation, token_sha256 = known.get(node_id, (0, ""))
            if link is None:
                continue
            if token_sha256 != link.token_sha256:
                link.leave(4401, "this token is no longer valid: enrol the node again")
            else:
                link.generation_is(generation)

    async def _renew(self) -> None:
        if self.may_renew:
            for link in self._links.values():
                link.renew_if_due()

    async def _tell_seen(self) -> None:
        heard = [node_id for node_id, link in self._links.items() if link.heard]
        for node_id in heard:
            self._links[node_id].heard = False
        if heard:
            await self.in_thread(nodes.seen, heard, timezone.now())

    # --- the map ----------------------------------------------------------------------------

    def want_layout(self) -> None:
        """Read the inventory soon: a node that said hello may have brought GPUs."""
        self._layout_wanted.set()

    async def _follow_layout(self) -> None:
        self._adopt(await self.in_thread(layout.load))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAYOUT_S):
                await self._layout_wanted.wait()
        self._layout_wanted.clear()

    def _adopt(self, fresh: Layout) -> None:
        if fresh.epoch == self.layout.epoch:
            self.grid.facts = fresh.facts
        else:
            self.grid = self.grid.adopt(fresh.facts)
            self.history = self.history.adopt(fresh.facts.ids)
        self.layout = fresh
        self.audience.watch(self.grid, fresh.epoch, time.time())

    async def _turn(self) -> None:
        """One second of the map, for the history and for every browser."""
        now = time.time()
        self.history.record(self.grid, now)
        self.audience.turn(now)

    async def _count(self) -> None:
        if self.audience.tabs:
            self.audience.counts = await self.in_thread(counts.of_work)

    def live(self, gpu_id: int) -> LiveGpu | None:
        """The last sample of one GPU; None when this process never saw one."""
        row = int(self.grid.facts.rows([gpu_id])[0])
        if row < 0 or not self.grid.at[row]:
            return None
        return latest.live(
            gpu_id,
            float(self.grid.at[row]),
            int(self.grid.state[row]),
            self.grid.values[row],
            float(self.grid.facts.memory_bytes[row]),
            time.time(),
        )

    def series(self, gpu_id: int) -> Series:
        return self.history.series(gpu_id)

    # --- the other processes ----------------------------------------------------------------

    async def _exchange(self) -> None:
        now = time.time()
        blob = live_store.pack(self.process, self.grid, now)
        for shared in await live_store.exchange(self._client, self.process, blob, now):
            self.grid.merge(shared.ids, shared.at, shared.state, shared.values)

    async def _listen(self) -> None:
        """Bells and events of other processes, until Redis fails."""
        async with self._client.pubsub() as bells:
            await bells.subscribe(self._nodes_channel, self._pages_channel, self._links_channel)
            while True:
                message = await bells.get_message(ignore_subscribe_messages=True, timeout=5)
                if message is not None:
                    await self._hear(message["channel"].decode(), message["data"])

    async def _hear(self, channel: str, data: bytes) -> None:
        try:
            body = json.loads(data)
        except ValueError as error:
            self.refused.add("bell: not JSON", channel, error)
            return
        match channel, body:
            case self._nodes_channel, [*node_ids] if all(isinstance(id, int) for id in node_ids):
                await self._ask_generations(node_ids)
            case self._pages_channel, {"op": str()}:
                self.audience.tell({"type": "event", **body})
            case self._links_channel, [int(node_id), str(connection)]:
                self._yield_to_other(node_id, connection)
            case _:
                self.refused.add("bell: unknown message", channel, data[:80])

    def _yield_to_other(self, node_id: int, connection: str) -> None:
        link = self._links.get(node_id)
        if link is not None and not connection.startswith(self.process):
            link.leave(4409, "a newer connection of this node, to another process, took over")

    async def _publish(self, channel: str, body: list[Any]) -> None:
        try:
            if self._redis is not None:
                await self._redis.publish(channel, json.dumps(body))
        except redis.RedisError as error:
            self.refused.add("bell: could not be published", channel, error)


def _with_connection(work: Callable[[*Ts], T], *args: *Ts) -> T:
    """A thread keeps its connection from call to call; one that failed is closed, and the next
    call opens another."""
    try:
        return work(*args)
    except (OperationalError, InterfaceError):
        connections.close_all()
        raise


hub = Hub()


def live_of(gpu_id: int) -> LiveGpu | None:
    """The last sample of one GPU, from this process or, where none runs here, from Redis."""
    if hub.is_running:
        return hub.live(gpu_id)
    try:
        return live_store.read().get(gpu_id)
    except Unavailable:
        return None
