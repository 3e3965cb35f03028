"""An agent ends and another takes its place: online work and the offline job never notice."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest

from agents.control_block import Mode
from agents.stub import online_service
from agents.supervisor import start_ticks
from agents.wire.messages import DesiredGpu, DesiredService
from agents.wire.names import EventKind, Phase, SharingMode
from tests.agents.cast import PLACEMENT_ID, STOP, desired, placement
from tests.agents.fake_console import FakeConsole, until
from tests.agents.simulated_machine import SimulatedMachine, processes
from tests.agents.test_process_node import running
from tests.agents.xcuda.running import BUILD, ROOT, build, can_build

pytestmark = pytest.mark.timeout(180)

QUOTA_BYTES = 3 << 30
LAUNCHES = "exec $programs/loop launch --seconds 600 --kernel step_500us"
EVERY_S = 0.02
# One is served in 10 ms; a machine that runs other tests at the same time takes its time.
SLOWEST_S = 5.0
# As long as a busy machine takes for the start of a process, and the agent to trust what it sees.
SOON_S = 40.0
SERVICES = (DesiredService("chat", 0),)
GPUS = (DesiredGpu(0, SharingMode.ENFORCE, "standard"),)


class Online:
    """A service that is asked for something all the time, and counts its answers."""

    def __init__(self, machine):
        self.seconds, self.asked = [], 0
        self._over = threading.Event()
        paths = {
            "PYTHONPATH": str(ROOT),
            "CUDA_MPS_PIPE_DIRECTORY": str(machine.folder / "at/pipe"),
        }
        program = [sys.executable, online_service.__file__]
        self._service = machine.start_online(0, program, **paths)
        self._client = threading.Thread(target=self._ask)
        self._client.start()

    def _ask(self):
        while not self._over.wait(EVERY_S):
            began = time.monotonic()
            self.asked += 1
            self._service.stdin.write("request\n")
            self._service.stdin.flush()
            float(self._service.stdout.readline())  # how long it took: what failed is no number
            self.seconds.append(time.monotonic() - began)

    def close(self):
        """The exit status of the service."""
        self._over.set()
        self._client.join(10)
        self._service.stdin.close()
        return self._service.wait(10)


class Node:
    """Its job and its online service share one simulated GPU."""

    def __init__(self, machine, console):
        self.machine, self.console = machine, console
        self.online = Online(machine)

    def start_agent(self):
        return self.machine.start_agent(self.console.url)

    def orders(self, generation=1, **changes):
        command = self.machine.command(LAUNCHES)
        job = placement(command=command, memory_quota_bytes=QUOTA_BYTES, **changes)
        return desired(job, gpus=GPUS, services=SERVICES, generation=generation)

    def look(self):
        """The limits that hold for the job, and its one process."""
        with self.machine.block(PLACEMENT_ID) as block:
            (process,) = processes(block)
            return block.read_limits(), process


@pytest.fixture
async def node(tmp_path):
    if not can_build():
        pytest.skip("compiler: xCUDA needs make and a C compiler")
    build("stub", "programs", "lib", BUILD / "mps-report")
    with closing(SimulatedMachine(tmp_path, gpus=1)) as machine:
        machine.start_daemons()
        async with FakeConsole() as console:
            node = Node(machine, console)
            yield node
            node.online.close()


@pytest.mark.parametrize("end", [subprocess.Popen.terminate, subprocess.Popen.kill])
async def test_while_agents_come_and_go_every_request_is_answered(node, end):
    console, agent = node.console, node.start_agent()
    await until(lambda: console.hellos, SOON_S)
    await console.desire(node.orders())
    pid = (await running(console, within_s=SOON_S)) and node.look()[1].pid
    ticks = start_ticks(pid)

    for _ in range(2):
        agent = await replaced(agent, end, node)

    assert start_ticks(pid) == ticks
    assert len(told(console, EventKind.PLACEMENT_STARTED)) == 1
    await console.desire(node.orders(generation=2, stop=STOP))
    (ended,) = await until(lambda: told(console, EventKind.PLACEMENT_ENDED), SOON_S)
    assert ended.data["remarks"] == []  # its memory was seen to return
    phases = [one.data["phase"] for one in told(console, EventKind.EVICTION_PHASE)]
    assert phases[-2:] == [Phase.GONE, Phase.MEMORY_RETURNED]
    assert node.online.close() == 0
    assert len(node.online.seconds) == node.online.asked > 100
    assert max(node.online.seconds) < SLOWEST_S


async def replaced(agent, end, node):
    """The next agent, which found the job as the last one had left it."""
    pid, seconds = node.look()[1].pid, node.online.seconds
    end(agent)
    assert agent.wait(SOON_S) in (0, -9)
    answered = len(seconds)
    await until(lambda: len(seconds) > answered + 10, SOON_S)  # no agent there
    statuses = len(node.console.statuses)
    agent = node.start_agent()
    await running(node.console, after=statuses, within_s=SOON_S)
    limits, process = node.look()
    held = (limits.memory_quota_bytes, limits.inflight_cap, limits.mode)
    assert held == (QUOTA_BYTES, 1, Mode.RUN)
    assert process.pid == pid
    await until(lambda: node.look()[1].launches > process.launches, SOON_S)
    return agent


def told(console, kind):
    return [one for one in console.events if one.kind is kind]
