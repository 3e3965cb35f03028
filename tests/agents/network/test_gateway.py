"""A real agent and a real console, uvicorn on SQLite and Redis, with the misbehaving network
between them."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from agents.spool import Spool
from agents.state import StateFile
from agents.status import snapshot
from agents.wire.credentials import Credentials
from agents.wire.names import EventKind
from console.demo.embedded import free_port
from tests.agents.agent_process import AgentProcess
from tests.agents.fake_console import TOKEN, until
from tests.agents.network.proxy import Fault, Proxy

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[3]
PREPARE = f"""
import json, django
django.setup()
from django.conf import settings
from django.core.management import call_command
from agents.wire import codec
from tests.console.telemetry import cast
call_command("migrate", verbosity=0)
node = cast.node("node-01", gpus=0, token={TOKEN!r})
key = codec.node_key(settings.MASTER_SECRET.encode(), str(node.pk))
print(json.dumps([str(node.pk), key.hex()]))
"""
# More than two batches.
WAITING = 600


class RealConsole:
    """The web process, which can be killed; its database outlives it."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.database = folder / "console.sqlite3"
        self._env = os.environ | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DATABASE_URL": f"sqlite:///{self.database}",
            "MUXFLOW_VAR_DIR": str(folder),
            "MUXFLOW_REDIS_PREFIX": f"network-{uuid.uuid4().hex[:8]}",
        }
        self._process = None

    def prepare(self):
        """The credentials of its one node."""
        command = [sys.executable, "-c", PREPARE]
        done = subprocess.run(command, cwd=ROOT, env=self._env, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        node_id, key_hex = json.loads(done.stdout.splitlines()[-1])
        return Credentials("node-01", node_id, TOKEN, key_hex)

    async def is_up(self):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        writer.close()
        return True

    def start(self):
        words = ["-m", "console.serve", "--port", str(self.port), "--log-level", "warning"]
        with (self.folder / "web.log").open("ab") as log:
            command = [sys.executable, *words]
            self._process = subprocess.Popen(command, cwd=ROOT, env=self._env, stderr=log)

    def kill(self):
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def ask(self, query):
        with closing(sqlite3.connect(f"file:{self.database}?mode=ro", uri=True)) as database:
            return database.execute(query).fetchall()

    def order_anew(self):
        """As whatever changes the desired state of the node does."""
        with closing(sqlite3.connect(self.database, timeout=10)) as database, database:
            database.execute("UPDATE inventory_node SET generation = generation + 1")


def fill_spool(state_dir):
    """What happened while no console was there."""
    state = StateFile(state_dir)
    spool = Spool(state, "node-01")
    for number in range(WAITING):
        spool.append(EventKind.DEGRADED, gpu_index=0, data={"missing": [f"signal {number}"]})
    state.close()


@pytest.fixture
def console(tmp_path):
    folder = tmp_path / "console"
    folder.mkdir()
    console = RealConsole(folder)
    yield console
    console.kill()


async def test_both_sides_are_right_after_all_that_a_network_can_do(tmp_path, console):
    keys = await asyncio.to_thread(console.prepare)
    console.start()
    while not await console.is_up():
        await asyncio.sleep(0.05)
    async with Proxy(console.port) as proxy:
        agent = AgentProcess(tmp_path, proxy.url, keys=keys)
        fill_spool(agent.state_dir)
        faults = [("hello", Fault.TRUNCATE), ("events", Fault.DUPLICATE), ("events", Fault.DROP)]
        for kind, fault in faults:
            proxy.up.harm(kind, fault)
        agent.start()
        try:
            await until(lambda: proxy.up.suffered == faults, timeout_s=60)
            proxy.cut()
            await until(lambda: node(console)["acked"] >= last_seq(console) > 0, timeout_s=60)
            await until(lambda: len(events(console)) >= WAITING, timeout_s=60)

            console.kill()
            await until(lambda: view(agent).link.up is False, timeout_s=30)
            console.start()
            await until(lambda: view(agent).link.up, timeout_s=60)

            proxy.down.harm("envelope", Fault.TRUNCATE)
            console.order_anew()
            await until(lambda: proxy.down.suffered, timeout_s=30)
            await until(lambda: follows(console, agent), timeout_s=60)
        finally:
            agent.kill()
    numbers = [seq for seq, _ in events(console)]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    told = [json.loads(data)["missing"] for seq, data in events(console)[:WAITING]]
    assert told == [[f"signal {number}"] for number in range(WAITING)]
    check_log(agent.warnings())


def check_log(lines):
    """One for each of what happened to it, in that order."""
    told = [line.partition("/ws/agent/: ")[2] or line for line in lines]
    assert told[0].startswith("it closed the connection (4400): not a message of this protocol")
    # The console's death broke it off again, which is not said twice within a minute.
    assert told[1] == "the connection broke off"
    assert told[2].startswith("node-01: dropped a message: ")
    assert len(told) == 3


def events(console):
    return console.ask("SELECT seq, data FROM telemetry_nodeevent ORDER BY seq")


def last_seq(console):
    return console.ask("SELECT COALESCE(MAX(seq), 0) FROM telemetry_nodeevent")[0][0]


def node(console):
    names = ("acked", "generation", "observed")
    query = "SELECT acked_event_seq, generation, observed_generation FROM inventory_node"
    return dict(zip(names, console.ask(query)[0], strict=True))


def view(agent):
    return snapshot.decode((agent.state_dir / snapshot.FILE_NAME).read_bytes()).nodes[0]


def follows(console, agent):
    held = node(console)
    return view(agent).generation == held["generation"] == held["observed"]
