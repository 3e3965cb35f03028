"""A real worker with a real beat outlives its broker and its database, and nobody repairs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest
import redis
from psycopg import sql

from console.demo import embedded
from console.demo.processes import die_with_parent

pytestmark = [pytest.mark.integration, pytest.mark.timeout(600)]

ROOT = Path(__file__).resolve().parents[2]
CELERY = (sys.executable, "-m", "celery", "-A", "workers.app")
QUEUES = "matching,reallocation,telemetry,default"


@dataclass
class Stage:
    """The processes, and a database of their own in the server that the tests use."""

    server_url: str
    database: str
    redis: embedded.RedisServer
    folder: Path
    processes: dict[str, subprocess.Popen[bytes]]

    @property
    def database_url(self) -> str:
        return urlunsplit(urlsplit(self.server_url)._replace(path=f"/{self.database}"))

    def start(self, name: str, *command: str) -> None:
        env = os.environ | {
            "DATABASE_URL": self.database_url,
            "REDIS_URL": self.redis.url,
            "MUXFLOW_VAR_DIR": str(self.folder),
            "MUXFLOW_LOG_LEVEL": "WARNING",
        }
        with (self.folder / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                command, cwd=ROOT, env=env, stdout=log, stderr=log, preexec_fn=die_with_parent
            )

    def start_redis(self) -> None:
        self.start("redis", *self.redis.command)
        client = redis.Redis.from_url(self.redis.url)
        eventually(lambda: answers(client), 30, "Redis answers")
        client.close()

    def start_worker(self) -> None:
        options = ("--pool=threads", "--concurrency=4", f"--queues={QUEUES}")
        self.start("worker", *CELERY, "worker", *options)

    def start_beat(self, name: str) -> None:
        self.start(name, *CELERY, "beat", f"--schedule={self.folder / name}", "--pidfile=")

    def ticks(self) -> int:
        """How often the eviction clock was started: its lease counts that."""
        with psycopg.connect(self.database_url) as connection:
            row = connection.execute(
                "SELECT fence FROM runs_lease WHERE name = 'default.tick_evictions'"
            ).fetchone()
        return row[0] if row else 0

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2_000:]


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False


def eventually(met: Callable[[], object], within_s: float, what: str) -> None:
    until = time.monotonic() + within_s
    while not met():
        if time.monotonic() > until:
            pytest.fail(f"after {within_s} s still not: {what}")
        time.sleep(0.1)


def goes_on(stage: Stage, within_s: float) -> None:
    before = stage.ticks()
    eventually(lambda: stage.ticks() >= before + 3, within_s, "the worker does its work")
    worker = stage.processes["worker"]
    assert worker.poll() is None, stage.log("worker")


@contextmanager
def own_database(server_url: str) -> Iterator[str]:
    name, template = f"survives_{uuid4().hex[:8]}", os.environ.get("MUXFLOW_TEST_TEMPLATE")
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    with psycopg.connect(server_url, autocommit=True) as server:
        names = map(sql.Identifier, (name, template or "template1"))
        server.execute(create.format(*names))
        try:
            yield name
        finally:
            drop = sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name))
            server.execute(drop)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    server_url, folder = os.environ["DATABASE_URL"], tmp_path_factory.mktemp("worker")
    with own_database(server_url) as database:
        made = Stage(server_url, database, embedded.redis_server(folder), folder, {})
        try:
            made.start("migrate", sys.executable, "manage.py", "migrate", "--verbosity=0")
            assert made.processes.pop("migrate").wait(180) == 0, made.log("migrate")
            made.start_redis()
            made.start_worker()
            made.start_beat("beat")
            eventually(lambda: made.ticks() >= 2, 180, "the worker begins")
            yield made
        finally:
            for process in made.processes.values():
                process.kill()
                process.wait()


@pytest.mark.parametrize("away_s", [0.2, 3.0, 8.0])
def test_the_broker_is_killed_and_comes_back(stage: Stage, away_s: float):
    stage.processes["redis"].send_signal(signal.SIGKILL)
    stage.processes["redis"].wait()
    time.sleep(away_s)
    stage.start_redis()
    goes_on(stage, within_s=60)


def test_the_database_is_away_for_a_while(stage: Stage):
    with psycopg.connect(stage.server_url, autocommit=True) as server:
        name = sql.Identifier(stage.database)
        server.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        server.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s",
            [stage.database],
        )
        time.sleep(4)
        server.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
    goes_on(stage, within_s=60)


def test_a_second_beat_doubles_nothing(stage: Stage):
    """Any number of beats: the lease lets one tick through at a time, and each tick is harmless."""
    stage.start_beat("second-beat")
    goes_on(stage, within_s=60)
