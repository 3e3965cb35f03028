from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
import redis
from channels.db import database_sync_to_async
from django.db import connection

from console import announce, live_state
from console.demo import embedded
from console.inventory import bell
from console.telemetry import hub as hub_module
from console.telemetry.hub import Hub

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
    settings.REDIS_PREFIX = "muxflow"
    live_state.client.cache_clear()


@pytest_asyncio.fixture
async def hub(transactional_db, monkeypatch) -> AsyncIterator[Hub]:
    """The process's hub, empty; consumers start it themselves."""
    hub = hub_module.hub
    monkeypatch.setattr(hub_module, "TICK_S", 0.05)
    monkeypatch.setattr(hub_module, "POLL_NODES_S", 0.05)
    if connection.vendor == "sqlite":
        monkeypatch.setattr(hub, "in_thread", in_one_thread)
        monkeypatch.setattr(hub_module, "DATABASE_THREADS", 1)
    hub.__init__()  # type: ignore[misc]
    yield hub
    if hub.is_running:
        await hub.stop()


async def in_one_thread(work, *args):
    """Connections to one SQLite in memory lock each other out at once, so there is only one."""
    return await database_sync_to_async(work)(*args)


@pytest.fixture
def with_redis(settings) -> None:
    """The real Redis, in a corner of its own."""
    settings.REDIS_URL = os.environ["REDIS_URL"]
    settings.REDIS_PREFIX = f"test-{secrets.token_hex(6)}"
    live_state.client.cache_clear()


class OwnRedis:
    """A server that a test may kill and start again, at the same address."""

    def __init__(self, folder: Path) -> None:
        self._server = embedded.redis_server(folder)
        self.url = self._server.url

    def start(self) -> None:
        self._process = subprocess.Popen(self._server.command, stdout=subprocess.DEVNULL)
        client = redis.Redis.from_url(self.url)
        while True:
            try:
                client.ping()
            except redis.ConnectionError:
                time.sleep(0.02)
            else:
                client.close()
                return

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def own_redis(tmp_path, settings) -> Iterator[OwnRedis]:
    server = OwnRedis(tmp_path)
    server.start()
    settings.REDIS_URL = server.url
    live_state.client.cache_clear()
    yield server
    server.kill()
