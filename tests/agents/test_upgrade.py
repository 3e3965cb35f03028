"""An agent ends and another takes its place: online work and the offline job never notice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from agents.control_block import ControlBlock, Mode
from agents.stub import online_service
from agents.supervisor import start_ticks
from agents.wire.names import EventKind, PlacementState
from tests.agents.cast import PLACEMENT_ID, desired, placement
from tests.agents.fake_console import until
from tests.agents.test_process_node import Machine, console, kinds, running
from tests.agents.xcuda.running import BUILD, ROOT, build, can_build

__all__ = ["console"]
pytestmark = pytest.mark.timeout(60)

QUOTA_BYTES = 3 << 30
EVERY_S = 0.02
# One is served in 10 ms; a machine that runs other tests at the same time takes its time.
SLOWEST_S = 2.0


class Online:
    """A service that is asked for something all the time, and counts its answers."""

    def __init__(self, environment):
        self.seconds, self.asked = [], 0
        self._over = threading.Event()
        command = [sys.executable, online_service.__file__]
        pipe = subprocess.PIPE
        self._service = subprocess.Popen(
            command, env=os.environ | environment, stdin=pipe, stdout=pipe, text=True
        )
        assert self._service.stdout.readline() == "ready\n"
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
        self._service.stdout.close()
        return self._service.wait(10)


class Node(Machine):
    """Its job and its online service share a simulated GPU."""

    def __init__(self, folder, console):
        super().__init__(folder, console)
        self.online = None
        gpu = {"STUB_MPS": str(folder / "gpu"), "STUB_GPUS": "16", "STUB_TIME": "1"}
        told = [f"{name}={value}" for name, value in (gpu | self.driver).items()]
        loop = (str(BUILD / "programs" / "loop"), "launch", "--seconds", "600")
        words = ("env", *told, "CUDA_VISIBLE_DEVICES=0", *loop, "--kernel", "step_500us")
        self.job = placement(command=words, memory_quota_bytes=QUOTA_BYTES)

    @property
    def driver(self):
        return {"LD_LIBRARY_PATH": str(BUILD / "stub")}

    @property
    def command(self):
        return [*super().command, "--xcuda", str(BUILD / "libxcuda.so")]

    def serve(self):
        pipe = str(self.folder / "GPU-0" / "pipe")
        paths = {"PYTHONPATH": str(ROOT), "CUDA_MPS_PIPE_DIRECTORY": pipe}
        self.online = Online(self.driver | paths)

    def look(self):
        """The limits that hold for the job, and its one process."""
        with ControlBlock(self.folder / "state/jobs" / PLACEMENT_ID / "xcuda") as block:
            (slot,) = [slot for slot in block.read_slots() if slot.alive]
            return block.read_limits(), slot

    def clean(self):
        if self.online is not None:
            self.online.close()
        super().clean()


@pytest.fixture
async def node(tmp_path, console):
    if not can_build():
        pytest.skip("compiler: xCUDA needs make and a C compiler")
    build("stub", "programs", "lib")
    node = Node(tmp_path, console)
    yield node
    node.clean()


@pytest.mark.parametrize("end", [subprocess.Popen.terminate, subprocess.Popen.kill])
async def test_while_agents_come_and_go_every_request_is_answered(node, console, end):
    node.serve()
    agent = node.start_agent()
    await until(lambda: console.hellos)
    await console.desire(desired(node.job))
    await running(console)
    pid = node.told("started.json")["pid"]
    await until(lambda: [slot for slot in [node.look()[1]] if slot.launches > 0])

    for _ in range(2):
        agent = await replaced(agent, end, node, console)

    assert node.online.close() == 0
    online, node.online = node.online, None
    assert len(online.seconds) == online.asked > 100
    assert max(online.seconds) < SLOWEST_S
    assert start_ticks(pid) == node.told("started.json")["pid_ticks"]
    assert kinds(console).count(EventKind.PLACEMENT_STARTED) == 1
    assert console.status.placements[0].state is PlacementState.RUNNING


async def replaced(agent, end, node, console):
    """The next agent, which found the job as the last one had left it."""
    pid = node.look()[1].pid
    end(agent)
    assert agent.wait(timeout=5) in (0, -9)
    answered = len(node.online.seconds)
    await until(lambda: len(node.online.seconds) > answered + 10)  # with no agent there
    statuses = len(console.statuses)
    agent = node.start_agent()
    await running(console, after=statuses)
    limits, slot = node.look()
    told = (limits.memory_quota_bytes, limits.inflight_cap, limits.mode)
    assert told == (QUOTA_BYTES, 1, Mode.RUN)
    assert slot.pid == pid
    await until(lambda: node.look()[1].launches > slot.launches)
    return agent
