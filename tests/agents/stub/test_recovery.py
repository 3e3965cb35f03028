"""An illegal access in an offline kernel, and the way back with nobody's help."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import replace

import pytest

from agents.mps import arrivals
from agents.mps.daemons import GpuHands
from agents.mps.hooks import RestartHooks
from agents.mps.recovery import Stage
from agents.mps.shareable import OnlineProcess
from agents.mps.timeline import BY_LOG, Victim
from agents.mps.warden import Guests, Warden
from agents.mps.watch import Watcher
from tests.agents.mps.cast import CARD
from tests.agents.mps.conftest import until
from tests.agents.stub.conftest import clients
from tests.agents.xcuda.running import BUILD
from tests.process_states import state_of

# Holds on to its error as a server would that catches it: only a restart helps.
STUBBORN = """
cuda.start()
print("ready", flush=True)
while True:
    cuda.launch()
    time.sleep(0.005)
"""
# What the node's owner would write, and not well: it does not wait for the end of the old instance,
# so the server may refuse the new one, which then ends.
RESTART = """\
kill -9 $(cat {pid})
exec 3>&-
LD_LIBRARY_PATH={stub} STUB_TIME=1 {loop} launch-sync --seconds 60 >/dev/null 2>&1 &
echo $! > {pid}
"""
# Ends the old instance, and only from the second time on starts a new one.
LATE_RESTART = "mkdir {pid}.once 2>/dev/null && {{ kill -9 $(cat {pid}); exit 1; }}\n" + RESTART


class Node:
    """An online process on a GPU that is enabled, and the warden of it."""

    def __init__(self, watch, driver, runner, folder, script):
        self.watch, self.driver, self.runner = watch, driver, runner
        self.pid_file = folder / "online.pid"
        self.online = runner.python(STUBBORN, ready=True, preload=False, server=driver)
        self.pid_file.write_text(str(self.online.pid))
        words = script.format(
            pid=self.pid_file, stub=BUILD / "stub", loop=BUILD / "programs" / "loop"
        )
        self.hooks, self.told = RestartHooks({"chat": ("sh", "-c", words)}), []
        tell = self.told.append
        hands = GpuHands(Watcher(watch), lambda: ["chat"], self.hooks, tell, tell)
        self.warden = Warden("GPU-1", hands)
        until(lambda: clients(watch) == {self.online.pid})
        until(lambda: not self.look().hold)

    @property
    def pid(self):
        return int(self.pid_file.read_text() or 0)

    def look(self, *offline):
        now, pid = time.monotonic(), self.pid
        there = (OnlineProcess(pid, os.getuid(), "chat"),) if _lives(pid) else ()
        ours = {one: Victim(one, "offline", "loop", "job-a") for one in offline if _lives(one)}
        card = replace(CARD, online=there)
        return self.warden.look(card, self.watch.look(now), Guests(ours), now, time.time())

    def fault(self):
        """By an offline job that lives on with its error until it is ended."""
        words = ("loop", "launch-sync", "--seconds", 60)
        env = {"STUB_FAIL": "cuLaunchKernel:700@50"}
        job = self.runner.start(*words, preload=False, server=self.driver, env=env)
        until(lambda: self.look(job.pid).fault)
        job.kill()
        job.wait()
        return job.pid

    def close(self):
        until(lambda: not self.hooks.is_running("chat"))
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)


@pytest.fixture
def node(watch, driver, runner, tmp_path, monkeypatch, request):
    monkeypatch.setattr(arrivals, "SETTLE_S", 0.3)
    node = Node(watch, driver, runner, tmp_path, request.param)
    yield node
    node.close()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("node", [RESTART], indirect=True, ids=["at once"])
def test_online_is_restarted_and_comes_back_before_offline_may(node):
    guilty = node.fault()
    until(lambda: node.look() and node.warden.stage is Stage.SOUND)

    assert node.online.poll() is not None
    assert clients(node.watch) == {node.pid}
    assert node.told == []
    (story,) = node.warden.stories.all
    assert (story.first.pid, story.first.placement_id) == (guilty, "job-a")
    assert story.first_by == BY_LOG
    assert story.recovered_s <= 15


@pytest.mark.timeout(60)
@pytest.mark.parametrize("node", [LATE_RESTART], indirect=True, ids=["late"])
def test_the_first_restart_fails_and_the_second_brings_online_back(node):
    node.fault()
    until(lambda: node.look() and node.warden.stage is Stage.SOUND)

    assert clients(node.watch) == {node.pid}
    (story,) = node.warden.stories.all
    assert sum("the hook of chat runs" in one.what for one in story.moments) == 2
    assert story.recovered_s <= 15


def _lives(pid):
    """Not as a zombie."""
    return state_of(pid) not in (None, "Z", "X")
