from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from django.db import connections

from console import announce
from console.inventory import bell
from console.telemetry import hub as hub_module
from console.telemetry import live_store
from console.telemetry.hub import Hub
from tests.services import start_redis

# Nothing listens here: what Redis's absence looks like.
NO_REDIS = "redis://127.0.0.1:9/0"


@pytest.fixture(autouse=True)
def quiet_bells(monkeypatch):
    """No message leaves a test; returns what would have been told to browsers."""
    told: list[str] = []
    monkeypatch.setattr(bell, "publisher", lambda node_ids: None)
    monkeypatch.setattr(announce, "publisher", told.append)
    return told


@pytest.fixture(autouse=True)
def without_redis(settings):
    settings.REDIS_URL = NO_REDIS
    live_store._client.cache_clear()


@pytest_asyncio.fixture
async def hub(transactional_db, monkeypatch) -> AsyncIterator[Hub]:
    """The process's hub, empty; consumers start it themselves."""
    hub = hub_module.hub
    hub.__init__()  # type: ignore[misc]
    monkeypatch.setattr(hub_module, "TICK_S", 0.05)
    monkeypatch.setattr(hub_module, "POLL_NODES_S", 0.05)
    yield hub
    if hub.is_running:
        await asyncio.gather(*[hub.in_thread(connections.close_all) for _ in range(8)])
        await hub.stop()


@pytest.fixture(scope="session")
def redis_url() -> Iterator[str]:
    with start_redis() as url:
        yield url


@pytest.fixture
def with_redis(redis_url, settings) -> str:
    settings.REDIS_URL = redis_url
    live_store._client.cache_clear()
    live_store._client().flushall()
    return redis_url
