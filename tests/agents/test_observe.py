"""In sharing mode observe an agent on real GPUs writes in its own folder alone, starts nothing and
signals nobody, told by the interpreter's own audit of what it does."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.timeout(30)

ROOT = Path(__file__).parents[2]
AGENT = """
import asyncio, json, os, sys
from pathlib import Path
from agents import host, loop
from agents.collectors.nvml import Nvml
from agents.state import StateFile
from agents.status.board import Board
from agents.wire.messages import DesiredGpu
from agents.wire.names import SharingMode
from tests.agents.cast import desired, placement
from tests.agents.collectors.fake_nvml import FakeCard, FakeNvml
from tests.agents.fake_console import FakeConsole, until
from tests.agents.test_host import KEYS, config_of

folder, seen = Path(sys.argv[1]), []
PLAIN = {"os.kill", "os.killpg", "signal.pthread_kill", "subprocess.Popen", "os.posix_spawn",
         "os.fork", "os.forkpty", "os.exec"}
PATHS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.link",
         "os.symlink", "os.truncate", "sqlite3.connect"}

def audit(event, args):
    if event in PLAIN:
        seen.append([event, repr(args)])
    elif event in PATHS:
        seen.extend([event, str(path)] for path in args if isinstance(path, (str, Path)))
    elif event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC):
        seen.append([event, str(args[0])])

async def run():
    async with FakeConsole() as console:
        words = ("--mps-dir", str(folder / "mps"))
        config = config_of(folder / "state", *words, console=console.url)
        sys.addaudithook(audit)
        state = StateFile(config.state_dir)
        node = host.Host(config, KEYS, state)
        node.boot()
        await node.open()
        board, ending = Board(config.state_dir, node.berths), asyncio.Event()
        tasks = [asyncio.create_task(loop.beat(node, state, ending)),
                 asyncio.create_task(board.run())]
        await until(lambda: console.hellos)
        await console.desire(desired(placement(), mode=SharingMode.OBSERVE,
                             gpus=(DesiredGpu(0, SharingMode.OBSERVE, "standard"),)))
        await until(lambda: len(console.telemetry) >= 2)
        await until((config.state_dir / "status.json").exists)
        ending.set()
        tasks[1].cancel()
        await tasks[0]
        await node.close()
        state.close()

host.Nvml = lambda: Nvml(FakeNvml(FakeCard()))
asyncio.run(run())
print(json.dumps(seen))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory):
    folder = tmp_path_factory.mktemp("node")
    done = subprocess.run(
        [sys.executable, "-c", AGENT, str(folder)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return folder, json.loads(done.stdout.splitlines()[-1])


def test_it_writes_in_its_own_folder_alone(seen):
    folder, events = seen
    paths = [path for event, path in events if event.startswith(("open", "os.", "sqlite3"))]
    assert any(path.endswith("agent.sqlite3") for path in paths)
    assert [path for path in paths if not path.startswith(f"{folder}/state")] == []


def test_it_starts_nothing_and_signals_nobody(seen):
    _, events = seen
    started = ("os.kill", "signal.", "subprocess", "os.posix_spawn", "os.fork", "os.exec")
    assert [event for event, _ in events if event.startswith(started)] == []
