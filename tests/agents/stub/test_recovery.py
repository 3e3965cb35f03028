"""An illegal access in an offline kernel, and the way back with nobody's help."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from agents.mps import arrivals
from agents.mps.daemons import GpuHands
from agents.mps.hooks import RestartHooks
from agents.mps.recovery import Stage
from agents.mps.shareable import OnlineProcess
from agents.mps.timeline import Victim
from agents.mps.warden import Guests, Warden
from agents.mps.watch import Watcher
from tests.agents.mps.cast import CARD
from tests.agents.mps.conftest import until
from tests.agents.stub.conftest import clients
from tests.agents.xcuda.running import BUILD

# Holds on to its error as a server would that catches it: only a restart helps.
STUBBORN = """
cuda.start()
print("ready", flush=True)
while True:
    cuda.launch()
    time.sleep(0.005)
"""
# What the node's owner would write: end the old instance, start a new one.
RESTART = """\
kill -9 $(cat {pid})
exec 3>&-
LD_LIBRARY_PATH={stub} STUB_TIME=1 {loop} launch-sync --seconds 60 >/dev/null 2>&1 &
echo $! > {pid}
"""


@pytest.mark.timeout(60)
def test_online_is_restarted_and_comes_back_before_offline_may(
    watch, driver, runner, tmp_path, monkeypatch
):
    monkeypatch.setattr(arrivals, "SETTLE_S", 0.3)
    pid_file = tmp_path / "online.pid"
    online = runner.python(STUBBORN, ready=True, preload=False, server=driver)
    pid_file.write_text(str(online.pid))
    script = RESTART.format(pid=pid_file, stub=BUILD / "stub", loop=BUILD / "programs" / "loop")
    hooks, told = RestartHooks({"chat": ("sh", "-c", script)}), []
    hands = GpuHands(Watcher(watch), lambda: ["chat"], hooks, told.append, told.append)
    warden = Warden("GPU-1", hands)

    def look(*offline):
        now, pid = time.monotonic(), int(pid_file.read_text() or 0)
        there = (OnlineProcess(pid, os.getuid(), "chat"),) if _lives(pid) else ()
        processes = {one: Victim(one, "offline", "job-a") for one in offline if _lives(one)}
        card = replace(CARD, online=there)
        return warden.look(card, watch.look(now), Guests(processes), now, time.time())

    until(lambda: clients(watch) == {online.pid})
    until(lambda: not look().hold)
    fault = {"STUB_FAIL": "cuLaunchKernel:700@5"}
    runner.run("loop", "launch-sync", preload=False, server=driver, env=fault)
    until(lambda: look().fault)
    until(lambda: look() and warden.stage is Stage.SOUND)

    assert online.poll() is not None
    assert clients(watch) == {int(pid_file.read_text())}
    assert told == []
    (story,) = warden.timelines
    assert story.recovered_s is not None
    assert story.recovered_s <= 15
    os.kill(int(pid_file.read_text()), 9)
    hooks.wait()


def _lives(pid):
    """Not as a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
