"""One a web process: holds the live grid, serves agents and browsers, talks to the other processes.

All of it runs in the event loop; only the database is asked in threads. Nothing here is durable:
a hub that starts empty has the whole map again within a second or two.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, TypeVarTuple

import numpy as np
import redis.asyncio
from django.conf import settings
from django.db import InterfaceError, OperationalError, connections
from django.utils import timezone
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from console import announce
from console.errors import Unavailable
from console.history.outgoing import Outgoing
from console.inventory import bell
from console.scheduling import observed
from console.telemetry import counts, latest, layout, links, live_store
from console.telemetry.audience import Audience
from console.telemetry.backfills import Backfills
from console.telemetry.history import History, Series
from console.telemetry.intake import Intake
from console.telemetry.latest import Grid, Ids, LiveGpu
from console.telemetry.layout import Layout
from console.telemetry.links import AgentLink, Links
from console.telemetry.live_store import Shared
from console.telemetry.loops import forever
from console.telemetry.questions import Questions
from console.telemetry.refusals import Refusals
from console.telemetry.statuses import Report, Statuses

log = logging.getLogger(__name__)

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

TICK_S: Final = 1.0
# Telemetry is judged this often, all that came together; also just before each tick.
DRAIN_S: Final = 0.2
POLL_NODES_S: Final = 2.0
SEEN_S: Final = 4.0
WRITE_STATUSES_S: Final = 0.5
# In one go: news of so many nodes, and of those that only moved so many.
STATUSES: Final = 200
MOVING_STATUSES: Final = 50
LAYOUT_S: Final = 10.0
LAYOUT_APART_S: Final = 0.5  # when many nodes say hello at once
LAYOUT_REST: Final = 10  # times as long as it took
DATABASE_THREADS: Final = 4
SIGHTS: Final = 4  # of people with other pools each, whose work is counted in one second
FLUSH_S: Final = 1.0  # a look whether ten seconds are complete
BACKFILL_S: Final = 0.1  # at least, between two of them
# The whole of what another process knows is read when it appears, and then this often: between,
# it tells what changed.
WHOLE_S: Final = 5.0


class Hub:
    def __init__(self) -> None:
        self.process = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self.refused = Refusals()
        self.layout: Layout = layout.empty()
        self.grid = Grid(self.layout.facts)
        self.history = History()
        self.outgoing = Outgoing()
        self.audience = Audience(self.grid)
        self.intake = Intake(self.refused)
        self.statuses = Statuses()
        self.links = Links(self.in_thread)
        self.questions = Questions(self.in_thread)
        self.backfills = Backfills(self.in_thread, self.refused)
        self.ticks_total = self.ticks_late_total = 0
        self._tick_due = 0.0
        # The other processes, and when the whole of what each knows was read.
        self._others: dict[str, float] = {}
        # The GPUs that they have not been told of since.
        self._untold: Ids = np.empty(0, np.uint32)
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._redis: redis.asyncio.Redis | None = None
        self._layout_wanted = asyncio.Event()
        self._has_layout = self._knows = False
        self._nodes_channel, self._pages_channel = bell.channel(), announce.channel()
        self._links_channel = f"{settings.REDIS_PREFIX}:links"
        self._samples_channel = f"{settings.REDIS_PREFIX}:samples"

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
        self._has_layout = self._knows = False
        loops = (
            ("layout", self._follow_layout, LAYOUT_APART_S),
            ("telemetry", self._drain, DRAIN_S),
            ("live map", self._turn, TICK_S),
            ("live grid exchange", self._exchange, TICK_S),
            ("history", self._flush, FLUSH_S),
            ("back-fill", self.backfills.step, BACKFILL_S),
            ("bells", self._listen, 0),
            ("generations of nodes", self.links.poll, POLL_NODES_S),
            ("lease renewals", self.links.renew, links.RENEW_STEP_S),
            ("nodes seen", self.links.tell_seen, SEEN_S),
            ("statuses", self._write_statuses, WRITE_STATUSES_S),
            ("counts", self._count, TICK_S),
        )
        for name, step, period_s in loops:
            self._spawn(forever(name, step, period_s))

    @property
    def is_running(self) -> bool:
        return self._loop is not None

    @property
    def knows_the_fleet(self) -> bool:
        """Whether it has read, since it began, which GPUs there are and what others know of them:
        before that, no data of a GPU says nothing."""
        return self._knows

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

    @property
    def links_open(self) -> int:
        """How many agents are connected to this process."""
        return len(self.links)

    @property
    def samples_total(self) -> int:
        """GPU samples taken since this process began."""
        return self.intake.samples_total

    @property
    def polled_at(self) -> float:
        """When the database last said which generations hold, by the monotonic clock."""
        return self.links.polled_at

    async def attach(self, node_id: int, link: AgentLink) -> None:
        """From now on this connection speaks for the node, here and in every process."""
        self.links.attach(node_id, link)
        await self._publish(self._links_channel, json.dumps([node_id, link.connection]))

    def detach(self, node_id: int, link: AgentLink) -> None:
        if self.links.detach(node_id, link):
            self.statuses.forget(node_id)

    async def _drain(self) -> None:
        self._take_in()
        fresh, self._untold = self._untold, np.empty(0, np.uint32)
        if self._others and len(fresh):
            rows = self.grid.facts.rows(np.unique(fresh))
            blob = live_store.pack(self.process, self.grid, rows[rows >= 0])
            await self._publish(self._samples_channel, blob)

    def _take_in(self) -> None:
        """Put into the grid what came since the last time."""
        taken = self.intake.drain(self.grid.facts, self.layout.epoch)
        for sampled in taken:
            self.grid.put(*sampled[:-1])
            ids = self.grid.facts.ids[sampled.rows]
            self.outgoing.take(ids, *sampled[1:])
            if self._others:
                self._untold = np.concatenate((self._untold, ids))

    async def _flush(self) -> None:
        await self.outgoing.flush(self._client, self.process, time.time())

    async def _write_statuses(self) -> None:
        """What nodes say is true of them. While the database does not answer, all of it waits."""
        while reports := self.statuses.take(time.monotonic(), STATUSES, MOVING_STATUSES):
            try:
                await self.in_thread(_write, reports)
            except BaseException:
                self.statuses.give_back(reports)
                raise
            self.statuses.written(reports, time.monotonic())
            if len(reports) < STATUSES:
                return

    async def hand_over(self) -> None:
        """Before this process ends: its agents move to others while it serves what it knows."""
        await self.links.hand_over()
        with contextlib.suppress(OperationalError, InterfaceError):  # each agent says it again
            await self._write_statuses()

    # --- the map ----------------------------------------------------------------------------

    def look_for(self, gpu_ids: Collection[int]) -> None:
        """Read the inventory soon when one of these, which a hello told, is not on the map yet, or
        is there without an agent or as lost."""
        facts, rows = self.grid.facts, self.grid.facts.rows(list(gpu_ids))
        here = rows[rows >= 0]
        if len(here) < len(rows) or not facts.agent[here].all() or facts.lost[here].any():
            self.want_layout()

    def want_layout(self) -> None:
        self._layout_wanted.set()

    async def _follow_layout(self) -> None:
        began = time.monotonic()
        fresh = await self.in_thread(layout.load, self.layout)
        if fresh is not self.layout:
            self._adopt(fresh)
        self._has_layout = True
        # A large fleet that comes for the first time wants it again and again.
        await asyncio.sleep((time.monotonic() - began) * LAYOUT_REST)
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
            self._others = dict.fromkeys(self._others, 0.0)  # they may know the new ones
        self.layout = fresh
        self.audience.watch(self.grid, fresh, time.time())

    async def _turn(self) -> None:
        """One second of the map, for the history and for every browser."""
        now = time.time()
        self._count_tick(now)
        self._take_in()
        self.history.record(self.grid, now)
        self.audience.turn(now)

    def _count_tick(self, now: float) -> None:
        self.ticks_total += 1
        if self._tick_due and now - self._tick_due > TICK_S / 2:
            self.ticks_late_total += 1
        self._tick_due = now + TICK_S

    async def _count(self) -> None:
        for pools in self.audience.uncounted(SIGHTS):
            self.audience.count(pools, await self.in_thread(counts.of_work, pools))

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
        """Put down all that came to this process, for workers and for processes that begin; take
        up what others put down, of those that are new here or were not read for a while."""
        now = time.time()
        rows = live_store.fresh(self.grid, now)
        blob = live_store.pack(self.process, self.grid, rows)
        names = await live_store.put_down(self._client, self.process, blob, now)
        self._others = {name: self._others.get(name, 0.0) for name in names}
        due = [name for name, read_at in self._others.items() if now - read_at >= WHOLE_S]
        for shared in await live_store.take_up(self._client, due):
            self._merge(shared)
        self._others.update(dict.fromkeys(due, now))
        # What was told of GPUs before these were known here is lost, and read again.
        self._knows |= self._has_layout and all(self._others.values())

    def _merge(self, shared: Shared) -> None:
        if shared.process != self.process:
            self.grid.merge(shared.ids, shared.at, shared.state, shared.values)

    async def _listen(self) -> None:
        """Bells and events of other processes, until Redis fails."""
        async with self._client.pubsub() as bells:
            await bells.subscribe(
                *(self._nodes_channel, self._pages_channel),
                *(self._links_channel, self._samples_channel),
            )
            while True:
                message = await bells.get_message(ignore_subscribe_messages=True, timeout=5)
                if message is not None:
                    await self._hear(message["channel"].decode(), message["data"])

    async def _hear(self, channel: str, data: bytes) -> None:
        if channel == self._samples_channel:
            self._hear_samples(data)
            return
        try:
            body = json.loads(data)
        except ValueError as error:
            self.refused.add("bell: not JSON", channel, error)
            return
        match channel, body:
            case self._nodes_channel, [*node_ids] if all(isinstance(id, int) for id in node_ids):
                await self.links.ask_generations(node_ids)
            case self._pages_channel, {"op": str()}:
                self.audience.tell({"type": "event", **body})
            case self._links_channel, [int(node_id), str(connection)]:
                self.links.yield_to_other(node_id, connection, self.process)
            case _:
                self.refused.add("bell: unknown message", channel, data[:80])

    def _hear_samples(self, data: bytes) -> None:
        shared = live_store.unpack(data)
        if shared is None:
            self.refused.add("bell: samples that are not whole", self._samples_channel)
        else:
            self._merge(shared)

    async def _publish(self, channel: str, body: str | bytes) -> None:
        try:
            if self._redis is not None:
                await self._redis.publish(channel, body)
        except redis.RedisError as error:
            self.refused.add("bell: could not be published", channel, error)


def _write(reports: Sequence[Report]) -> None:
    """Together; where that fails for another reason than the database, each by itself, so that one
    that cannot be written costs no other."""
    try:
        observed.apply_statuses(dict(reports), timezone.now())
        return
    except (OperationalError, InterfaceError):
        raise
    except Exception:
        log.exception("%d statuses could not be written together, each is by itself", len(reports))
    for node_id, status in reports:
        try:
            observed.apply_statuses({node_id: status}, timezone.now())
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            log.exception("the status of node %d could not be written, dropped", node_id)


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
