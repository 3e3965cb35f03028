from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.wire.names import EventKind, Origin
from console import live_state
from console.evictions.models import Eviction
from console.metrics.fleet import page, reading
from console.runs import leases
from console.telemetry import fleet, live_store
from console.telemetry.models import NodeEvent
from tests.console.metrics.cast import shown, value
from tests.console.telemetry import cast
from tests.console.telemetry.conftest import NO_REDIS
from tests.console.telemetry.fleet import BUSY, row

pytestmark = pytest.mark.django_db
T = cast.T


@pytest.fixture(autouse=True)
def without_redis(settings):
    settings.REDIS_URL = NO_REDIS
    live_state.client.cache_clear()
    yield
    live_state.client.cache_clear()


@pytest.fixture
def heard(monkeypatch):
    """Every GPU was heard of just now."""

    def fill(grid):
        grid.at[:], grid.state[:], grid.values[:] = T.timestamp(), 1, row(**BUSY)

    monkeypatch.setattr(live_store, "fill", fill)


def read():
    return shown(reading.read(lambda: T))


def test_what_the_database_knows_is_on_the_page(heard):
    card, other = cast.node(agent_version="0.1.0").gpus.all()
    cast.service(card)
    held = cast.placement(card)
    for state, where in ((Eviction.State.COMPLETED, card), (Eviction.State.PROPOSED, card)):
        Eviction.objects.create(
            placement=held, gpu=where, origin=Origin.OVERLOAD, state=state, state_since=T,
            proposed_at=T, why="made up",
        )  # fmt: skip
    NodeEvent.objects.create(
        event_id=held.pk, node=card.node, seq=1, kind=EventKind.FROZEN, at=T, received_at=T
    )
    leases.acquire("round.enforce", "somebody", 30, T)
    leases.acquire("run:0190", "somebody", 30, T)
    fleet.sample(T - timedelta(seconds=5))
    lines = read()
    assert value(lines, "gpu_evictions_total", gpu_uuid=card.uuid) == 1
    assert value(lines, "gpu_evictions_total", gpu_uuid=other.uuid) == 0
    assert value(lines, "open_evictions", state="PROPOSED") == 1
    assert value(lines, "placements", state="RUNNING") == 1
    assert value(lines, "freezes_total", pool="search-eu") == 1
    assert value(lines, "jobs", state="QUEUED") == 1
    assert value(lines, "gpu_info", service="search-rank", gpu_uuid=card.uuid) == 1
    assert value(lines, "service_p99_worst_seconds", beside="offline") == 0.03
    assert value(lines, "pool_gpus_sharing") == 2
    assert value(lines, "lease_held") == 1  # those of single runs are not named
    assert value(lines, "pool_equivalent_gpu_seconds_total") == 0


def test_without_redis_nothing_live_is_shown():
    cast.node()
    lines = read()
    assert value(lines, "pool_gpus", state="NO_DATA") == 2
    assert "muxflow_gpu_sm_activity_ratio" not in lines
    assert "muxflow_queue_messages" not in lines


def test_an_old_fleet_sample_tells_nothing_of_now(heard):
    cast.node()
    fleet.sample(T - timedelta(minutes=5))
    assert "muxflow_pool_equivalent_gpus" not in read()


def test_the_same_queries_whatever_the_size(heard):
    asked = []
    for number in range(2):
        for extra in range(1 + 3 * number):
            name = f"node-{number}-{extra}"
            card = cast.node(name, token=name).gpus.get(index=0)
            cast.placement(card, cast.job(name))
            cast.pool(f"pool-{name}")
            cast.service(card, name)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            list(page.families(reading.read(lambda: T)))
        asked.append(len(queries))
    assert asked[0] == asked[1]
