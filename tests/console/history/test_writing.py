"""From a web process through Redis into blocks, and what of it survives which fault."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from datetime import UTC, datetime

import numpy as np
import pytest
import redis.asyncio
from django.conf import settings
from django.db import OperationalError, connection, connections
from django.test.utils import CaptureQueriesContext

from console import live_state
from console.history import outgoing, ranges, rollup, rows, services, tiers, writing
from console.history.models import Block, TakenBatch
from console.history.outgoing import Outgoing
from console.inventory.models import Gpu
from console.telemetry.latest import COLUMN, COLUMNS
from tests.console.history.cast import recorded, samples
from tests.console.inventory.cast import a_node
from tests.console.telemetry.conftest import with_redis  # noqa: F401

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.integration]

MINUTE = int(time.time()) // 60 * 60 - 600


def send(gpus: list[int], seconds: int) -> None:
    """As a web process does: samples come each second, and every now and then it looks."""
    values = np.full((len(gpus), len(COLUMNS)), np.nan, np.float32)
    values[:, COLUMN["sm_activity"]] = 40.0
    worst, state = values[:, :12].copy(), np.ones(len(gpus), np.uint8)

    async def run() -> None:
        client, process = redis.asyncio.Redis.from_url(settings.REDIS_URL), Outgoing()
        for second in range(MINUTE, MINUTE + seconds):
            at = np.full(len(gpus), second + 0.4)
            process.take(np.array(gpus, np.uint32), at, state, values, worst, state == 0)
            await process.flush(client, "web-1", second + 1.0)
        await process.flush(client, "web-1", MINUTE + seconds + outgoing.BATCH_S)
        await client.aclose()

    asyncio.run(run())


def write() -> int:
    return writing.write(datetime.now(UTC))


def told(gpu: int, seconds: int) -> list[float | None]:
    found = ranges.chart(ranges.Gpu(gpu), ["sm_activity"], MINUTE, MINUTE + seconds)
    return found.series["sm_activity"].mean


def waiting() -> int:
    return int(live_state.client().zcard(outgoing.index()))


@pytest.fixture
def gpus(with_redis) -> list[int]:  # noqa: F811
    a_node(gpus=3)
    return list(Gpu.objects.order_by("pk").values_list("pk", flat=True))


def test_each_second_reaches_the_database_once(gpus):
    send(gpus, 130)
    assert (write(), write()) == (13, 0)
    assert waiting() == 0
    assert told(gpus[2], 130) == [40.0] * 130


def test_what_comes_with_the_next_minute_is_not_lost_though_both_are_written_at_once(gpus):
    whole = samples(gpus, MINUTE, 120, sm_activity=40.0)
    late = (whole.second == MINUTE + 5) & (whole.gpu == gpus[0])
    first = (whole.second < MINUTE + 60) & ~late
    client = live_state.client()
    for until, some in ((MINUTE + 60, whole.take(first)), (MINUTE + 120, whole.take(~first))):
        client.set(outgoing.key(f"web-1:{until}"), rows.pack(some))
        client.zadd(outgoing.index(), {f"web-1:{until}": until})
    assert write() == 2
    assert told(gpus[0], 120) == [40.0] * 120


@pytest.fixture
def breaks(monkeypatch) -> Callable[..., None]:
    """A call that fails once."""

    def arrange(owner, name: str, error: Exception) -> None:
        def fail(*args, **kwargs):
            monkeypatch.undo()
            raise error

        monkeypatch.setattr(owner, name, fail)

    return arrange


def test_a_worker_that_dies_before_it_clears_up_writes_nothing_twice(gpus, breaks):
    send(gpus, 60)
    breaks(live_state.client(), "delete", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        write()
    blocks = Block.objects.count()
    assert waiting() == 6
    assert write() == 0
    assert (waiting(), Block.objects.count()) == (0, blocks)
    assert (
        ranges.chart(ranges.Gpu(gpus[0]), ["sm_activity"], MINUTE, MINUTE + 60).samples == [1] * 60
    )


def test_while_the_database_is_away_nothing_is_lost(gpus, breaks):
    send(gpus, 300)
    breaks(writing, "store", OperationalError("away"))
    with pytest.raises(OperationalError):
        write()
    assert (waiting(), TakenBatch.objects.count()) == (30, 0)
    while write():
        pass
    assert told(gpus[0], 300) == [40.0] * 300


def test_late_seconds_of_many_nodes_cost_no_more_queries_than_those_of_one(
    gpus, django_assert_num_queries
):
    pool = Gpu.objects.get(pk=gpus[0]).node.pool
    others = [a_node(name=f"node-1{number}", pool=pool, gpus=1) for number in range(4)]
    more = list(Gpu.objects.filter(node__in=others).values_list("pk", flat=True))

    def add(some: list[int], seconds: int) -> None:
        """All but the last of these is known."""
        with writing.turn() as epoch:
            assert writing.store(samples(some, MINUTE, seconds), epoch) == len(some)

    add([*gpus, *more], 1)
    with CaptureQueriesContext(connection) as queries:
        add(gpus, 2)
    with django_assert_num_queries(len(queries)):
        add(more, 2)


def put(some: rows.Rows) -> None:
    """As batches of ten seconds, each when it is complete."""
    client, batch = live_state.client(), some.second // 10 * 10
    for start in np.unique(batch).tolist():
        name = f"web-1:{start + 10}"
        client.set(outgoing.key(name), rows.pack(some.take(batch == start)))
        client.zadd(outgoing.index(), {name: start + 10})


def test_ten_minutes_without_a_database_take_nothing_from_any_tier(gpus):
    """Over the end of an hour, with the periods of the worker's tasks."""
    hour = tiers.TEN.start(MINUTE)
    outage = range(hour - 240, hour + 360)
    put(samples(gpus, hour - 480, 1_200, sm_activity=40.0))

    def is_away(execute, sql, params, many, context):
        raise OperationalError("away")

    failures = 0
    for now in range(hour - 400, hour + 1_000, 10):
        moment = datetime.fromtimestamp(now, UTC)
        away = connection.execute_wrapper(is_away) if now in outage else nullcontext()
        try:
            with away:
                writing.write(moment)
                rollup.roll(moment, writing.is_behind)
        except OperationalError:
            failures += 1
    assert failures == len(outage) // 10
    rolled = Block.objects.filter(epoch=0, start=hour - 3_600)
    assert set(rolled.values_list("tier_s", flat=True)) == {1, 10, 60}
    node = ranges.Node(Gpu.objects.get(pk=gpus[0]).node_id)
    pool = ranges.Pool(Gpu.objects.get(pk=gpus[0]).node.pool_id)
    for scope, period_s in ((node, 1), (node, 10), (node, 60), (pool, 10), (pool, 60)):
        told = ranges.chart(scope, ["sm_activity"], hour - 480, hour + 720, 1_200 // period_s)
        assert told.period_s == period_s
        assert told.samples == [3 * period_s] * (1_200 // period_s)


def waits_for_a_lock() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        return bool(cursor.fetchone()[0])


def by_a_writer(gpus: list[int], whole: rows.Rows) -> None:
    with writing.turn() as epoch:
        writing.store(whole, epoch)


def by_a_backfill(gpus: list[int], whole: rows.Rows) -> None:
    node = Gpu.objects.get(pk=gpus[0]).node_id
    assert services.backfill(node, [recorded(MINUTE, 60, gpus=3)], MINUTE + 90) == 90


def by_a_roller(gpus: list[int], whole: rows.Rows) -> None:
    by_a_writer(gpus, whole)
    for _ in range(5):
        rollup.roll(datetime.fromtimestamp(MINUTE + 7_200, UTC), lambda until: False)


@pytest.mark.parametrize("others", [by_a_writer, by_a_backfill, by_a_roller])
def test_of_two_transactions_that_write_the_same_seconds_each_counts_once(gpus, others):
    whole = samples(gpus, MINUTE, 60, sm_activity=70.0)

    def work() -> None:
        try:
            others(gpus, whole)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        with writing.turn() as epoch:
            writing.store(whole.take(whole.second < MINUTE + 30), epoch)
            other = thread.submit(work)
            while not (waits_for_a_lock() or other.done()):
                time.sleep(0.01)
        other.result()
    pool = ranges.Pool(Gpu.objects.get(pk=gpus[0]).node.pool_id)
    for scope, each in ((ranges.Gpu(gpus[1]), 1), (pool, 3)):
        told = ranges.chart(scope, ["sm_activity"], MINUTE, MINUTE + 60, 6)
        assert told.samples == [10 * each] * 6
        assert set(told.series["sm_activity"].mean) == {70.0}


def test_a_batch_that_is_none_holds_nobody_up(gpus):
    send(gpus, 60)
    client = live_state.client()
    client.set(outgoing.key("web-9:1"), b"nonsense")
    client.zadd(outgoing.index(), {"web-9:1": MINUTE + 10, "web-8:gone": MINUTE + 20})
    assert write() == 8
    assert told(gpus[0], 60) == [40.0] * 60


def test_without_redis_samples_wait_and_then_they_are_bounded(gpus, settings, monkeypatch):
    settings.REDIS_URL = "redis://127.0.0.1:9/0"
    monkeypatch.setattr(outgoing, "MOST_WAITING", 30)
    process = Outgoing()
    values = np.full((3, len(COLUMNS)), 1.0, np.float32)

    async def run() -> None:
        client = redis.asyncio.Redis.from_url(settings.REDIS_URL)
        for second in range(MINUTE, MINUTE + 40):
            at = np.full(3, second + 0.4)
            told = np.ones(3, np.uint8), values, values[:, :12], np.zeros(3, np.bool_)
            process.take(np.array(gpus, np.uint32), at, *told)
            with suppress(redis.RedisError):
                await process.flush(client, "web-1", second + 1.0)

    asyncio.run(run())
    assert process.dropped_total > 0
