"""A real agent process with real child processes, killed in every way it can be."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agents.__main__ import main
from agents.status import command as status
from agents.stub import trainer
from agents.supervisor import start_ticks
from agents.wire import cluster as cluster_file
from agents.wire import credentials as credentials_file
from agents.wire.cluster import Cluster, ClusterGpu, ClusterNode
from agents.wire.credentials import Credentials
from agents.wire.names import EndReason, EventKind, PlacementState, RuntimeKind
from tests.agents.cast import EVICTION_ID, KEY, PLACEMENT_ID, STOP, desired, placement
from tests.agents.fake_console import TOKEN, FakeConsole, until

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[2]
JOB = placement(command=(sys.executable, trainer.__file__))
GPUS = tuple(ClusterGpu(f"GPU-{index}", "A10 24 GB", 24 << 30) for index in range(2))
# What `make demo` is to its agents: it holds the writing end, and can be killed.
LAUNCHER = """
import os, subprocess, sys, time
reader, writer = os.pipe()
agent = subprocess.Popen([*sys.argv[1:], "--lifeline-fd", str(reader)], pass_fds=[reader])
print(agent.pid, flush=True)
time.sleep(600)
"""


class Machine:
    """Where the agent is started and killed; its directory outlives it."""

    def __init__(self, folder, console):
        self.folder, self.console = folder, console
        self.processes = []
        node = ClusterNode("node-01", "lab", GPUS, runtime=RuntimeKind.PROCESS)
        (folder / "cluster.json").write_bytes(cluster_file.encode(Cluster("lab", (node,))))
        keys = (Credentials("node-01", "17", TOKEN, KEY.hex()),)
        (folder / "keys.json").write_bytes(credentials_file.encode(keys))

    @property
    def command(self):
        return [
            *(sys.executable, "-m", "agents", "--node", "node-01", "--runtime", "process"),
            *("--cluster", str(self.folder / "cluster.json"), "--console", self.console.url),
            *("--credentials", str(self.folder / "keys.json")),
            *("--state-dir", str(self.folder / "state"), "--clock", "60"),
        ]

    def start_agent(self):
        return self._start(self.command)

    def start_launcher(self):
        """The launcher, and the process id of its agent."""
        launcher = self._start([sys.executable, "-c", LAUNCHER, *self.command], subprocess.PIPE)
        return launcher, int(launcher.stdout.readline())

    def _start(self, command, stdout=None):
        process = subprocess.Popen(command, cwd=ROOT, stdout=stdout)
        self.processes.append(process)
        return process

    def clean(self):
        for process in self.processes:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        for started in self.folder.glob("state/jobs/*/started.json"):
            told = json.loads(started.read_text())
            if start_ticks(told["pid"]) == told["pid_ticks"]:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(told["pid"], signal.SIGKILL)

    def has_told(self, name: str) -> bool:
        return (self.folder / "state/jobs" / PLACEMENT_ID / name).exists()

    def told(self, name):
        return json.loads((self.folder / "state/jobs" / PLACEMENT_ID / name).read_text())


@pytest.fixture
async def console():
    async with FakeConsole() as console:
        yield console


@pytest.fixture
async def machine(tmp_path, console):
    machine = Machine(tmp_path, console)
    yield machine
    machine.clean()


def job(console):
    """The placement as the last status has it."""
    told = console.status.placements if console.statuses else ()
    return next((one for one in told if one.placement_id == PLACEMENT_ID), None)


async def running(console, after=0, within_s=12):
    """The job, once a status later than the first `after` says that it runs."""

    def seen():
        found = job(console) if len(console.statuses) > after else None
        return found if found and found.state is PlacementState.RUNNING else None

    return await until(seen, timeout_s=within_s)


def shown(machine):
    """The node as its status file has it."""
    return status.read(machine.folder / "state").nodes[0]


def kinds(console):
    return [event.kind for event in console.events]


async def test_a_killed_agent_leaves_its_job_running_and_the_next_adopts_it(machine, console):
    # 1. the agent runs the job
    agent = machine.start_agent()
    await until(lambda: console.hellos)
    await console.desire(desired(JOB))
    await running(console)
    pid = machine.told("started.json")["pid"]
    # 2. it is killed; the job does not notice
    agent.kill()
    agent.wait()
    assert start_ticks(pid) == machine.told("started.json")["pid_ticks"]
    # 3. the next one finds it, and starts nothing
    before = len(console.statuses)
    machine.start_agent()
    await running(console, after=before)
    assert machine.told("started.json")["pid"] == pid
    assert kinds(console).count(EventKind.PLACEMENT_STARTED) == 1
    # 4. and can stop it: the job saves its work first
    await console.desire(desired(placement(command=JOB.command, stop=STOP), generation=2))
    (ended,) = await until(
        lambda: [event for event in console.events if event.kind is EventKind.PLACEMENT_ENDED]
    )
    assert ended.data["reason"] == EndReason.EVICTED
    assert ended.eviction_id == EVICTION_ID
    assert ended.data["lost_work_s"] == 0
    assert ended.data["work_done_s"] > 0


async def test_a_job_that_ended_while_no_agent_was_there_is_told_with_its_status(machine, console):
    agent = machine.start_agent()
    await until(lambda: console.hellos)
    short = placement(command=("sh", "-c", "sleep 1.5; exit 3"))
    await console.desire(desired(short))
    await running(console)
    agent.kill()
    agent.wait()
    await until(lambda: (machine.folder / "state/jobs" / PLACEMENT_ID / "exit.json").exists())

    machine.start_agent()

    await until(lambda: EventKind.PLACEMENT_ENDED in kinds(console))
    ended = console.events[-1].data
    assert (ended["reason"], ended["exit_code"]) == (EndReason.FAILED, 3)


async def test_a_killed_launcher_leaves_nothing_behind(machine, console):
    launcher, agent_pid = machine.start_launcher()
    await until(lambda: console.hellos)
    await console.desire(desired(JOB))
    await running(console)
    pid = machine.told("started.json")["pid"]

    launcher.kill()

    await until(lambda: start_ticks(pid) is None and start_ticks(agent_pid) is None)
    await until(lambda: machine.has_told("exit.json"))  # by its supervisor, which sees it go
    assert machine.told("exit.json") | {"at": 0} == {"code": 0, "at": 0, "why": "lifeline"}


async def test_a_killed_agent_of_a_living_launcher_leaves_its_job_running(machine, console):
    _, agent_pid = machine.start_launcher()
    await until(lambda: console.hellos)
    await console.desire(desired(JOB))
    await running(console)

    os.kill(agent_pid, signal.SIGKILL)

    await until(lambda: start_ticks(agent_pid) is None)
    assert start_ticks(machine.told("started.json")["pid"]) is not None


async def test_off_stops_a_job_with_the_console_gone(machine, console):
    machine.start_agent()
    await until(lambda: console.hellos)
    await console.desire(desired(JOB))
    await running(console)
    console._server.close()
    await console.drop()

    assert main(["off", "--gpu", "GPU-1", "--state-dir", str(machine.folder / "state")]) == 0
    await until(lambda: [gpu.mode for gpu in shown(machine).gpus] == ["enforce", "off"])
    assert [one.state for one in shown(machine).placements] == [PlacementState.RUNNING]
    (machine.folder / "state" / "off").write_text("")

    exit_file = machine.folder / "state/jobs" / PLACEMENT_ID / "exit.json"
    await until(exit_file.exists)
    assert machine.told("exit.json")["code"] == 0


async def test_a_terminated_agent_ends_cleanly_and_leaves_its_job(machine, console):
    agent = machine.start_agent()
    await until(lambda: console.hellos)
    await console.desire(desired(JOB))
    await running(console)

    agent.terminate()

    assert agent.wait(timeout=5) == 0
    assert start_ticks(machine.told("started.json")["pid"]) is not None
