"""In sharing mode observe an agent on a node in use needs no privilege, writes in its own folder
alone, starts nothing and reaches no other process: told by a trace of its system calls. Preflight
changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from agents.state import running_pid
from agents.wire import credentials
from agents.wire.credentials import Credentials
from agents.wire.messages import DesiredGpu
from agents.wire.names import PlacementState, SharingMode
from tests.agents import trace
from tests.agents.actuators.trees import stand_in
from tests.agents.cast import KEY, desired, placement
from tests.agents.fake_console import TOKEN, FakeConsole, until
from tests.agents.xcuda.running import BUILD, Runner, Server, build, can_build

# With the stand-in driver to be built, and strace to be fetched.
pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).parents[2]
# Of a root without any capability, the kernel thinks as of anybody else.
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.geteuid() == 0 else ()
PROGRAMS = 2 if UNPRIVILEGED else 1
BUSY = ("loop", "launch-sync", "--kernel", "step_500us", "--grid", 100, "--seconds", 120)
OBSERVED = desired(
    placement(command=("sleep", "60")),
    mode=SharingMode.OBSERVE,
    gpus=(DesiredGpu(0, SharingMode.OBSERVE, "standard"),),
)


class Node:
    """A machine with one simulated GPU that an online process uses, and an agent to be traced."""

    def __init__(self, folder):
        self.folder = folder
        self.state, self.log = folder / "state", folder / "trace"
        self.device = Server(folder / "device")
        self.env = trace.environment(os.environ) | {
            "LD_LIBRARY_PATH": str(BUILD / "stub"),
            "STUB_MPS": str(self.device.path),
        }

    def write_credentials(self):
        path = self.folder / "credentials.json"
        path.touch(0o600)
        path.write_bytes(credentials.encode((Credentials("node-01", "1", TOKEN, KEY.hex()),)))
        return path

    def agent(self, console):
        words = ["--node", "node-01", "--gpus", "nvml", "--runtime", "process"]
        words += ["--console", console.url, "--credentials", str(self.write_credentials())]
        words += ["--state-dir", str(self.state), "--mps-dir", str(self.folder / "mps")]
        words += ["--cgroup-root", str(stand_in(self.folder / "groups"))]
        return [*UNPRIVILEGED, sys.executable, "-m", "agents", *words]

    @property
    def allowed(self):
        """What may be written besides the agent's own folder, and why."""
        return {
            str(self.device.path): "it stands for /dev/nvidia0, which NVML itself opens so",
            "/dev/nvidia": "likewise, where there is one",
            "/dev/null": "it keeps nothing",
        }

    def written(self, calls):
        """Paths outside of it."""
        for call in calls:
            for path in call.paths:
                whole = str(Path(ROOT, path))
                if not whole.startswith((f"{self.state}/", *self.allowed)) and whole != str(
                    self.state
                ):
                    yield call.name, whole


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    if not can_build():
        pytest.skip("compiler: the stand-in driver needs make and a C compiler")
    build("stub", "programs", BUILD / "mps-report")
    node = Node(tmp_path_factory.mktemp("node"))
    with closing(Runner(node.folder)) as online:
        online.start(*BUSY, preload=False, server=node.device, env={"STUB_TIME": "1"})
        yield node
        assert online.started[0].poll() is None, "the online process was harmed"


@pytest.fixture(scope="module")
def watched(node):
    """What the agent asked of the kernel from its start to its end."""
    asyncio.run(observe(node))
    return trace.calls(node.log, PROGRAMS)


async def observe(node):
    async with FakeConsole() as console:
        with trace.traced(node.agent(console), node.log, cwd=ROOT, env=node.env) as tracer:
            await until(lambda: console.hellos, timeout_s=60)
            await console.desire(OBSERVED)
            await until(lambda: console.statuses and console.status.observed_generation == 1)
            seen = len(console.telemetry)
            await until(lambda: len(console.telemetry) > seen + 2)
            await until((node.state / "status.json").exists)
            assert console.telemetry[-1].samples[0].online_processes == 1
            assert [one.state for one in console.status.placements] == [PlacementState.DESIRED]
            os.kill(running_pid(node.state), signal.SIGTERM)
            assert await asyncio.to_thread(tracer.wait, 30) == 0


def test_an_observing_agent_writes_in_its_own_folder_alone(node, watched):
    inside = {path for call in watched for path in call.paths if path.startswith(str(node.state))}
    assert f"{node.state}/agent.sqlite3" in inside
    assert list(node.written(watched)) == []


def test_an_observing_agent_starts_nothing_and_reaches_nobody(watched):
    assert [call for call in watched if call.starts or call.reaches_out] == []


def test_preflight_changes_nothing(node):
    log = node.folder / "preflight"
    words = ("-m", "agents", "preflight", "--mps-dir", str(node.folder / "mps"))
    pipe = subprocess.PIPE
    command = [*UNPRIVILEGED, sys.executable, *words]
    with trace.traced(command, log, cwd=ROOT, env=node.env, stdout=pipe) as tracer:
        said = tracer.communicate(timeout=60)[0].decode()
    assert tracer.returncode == 0
    assert "GPU 0" in said
    calls = trace.calls(log, PROGRAMS)
    outside = {path for call in calls for path in call.paths} - {str(node.device.path)}
    assert outside == set()
    assert [call for call in calls if call.starts or call.reaches_out] == []


def test_the_trace_sees_what_it_is_to_see(tmp_path):
    """A signal, a write, a new process: each is noticed."""
    script = (
        "import os, pathlib, subprocess, sys\n"
        "os.kill(os.getppid(), 0)\n"
        "pathlib.Path(sys.argv[1], 'new').write_text('x')\n"
        "os.sched_setaffinity(0, os.sched_getaffinity(0))\n"
        "subprocess.run(['true'])\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with trace.traced(command, tmp_path / "log", env=trace.environment(os.environ)) as tracer:
        assert tracer.wait(30) == 0
    seen = trace.calls(tmp_path / "log")
    assert {call.name for call in seen if call.reaches_out} == {"kill", "sched_setaffinity"}
    assert any(call.starts for call in seen)
    assert [path for call in seen for path in call.paths if path.startswith(str(tmp_path))] == [
        f"{tmp_path}/new"
    ]
