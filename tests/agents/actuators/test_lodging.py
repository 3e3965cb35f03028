"""Jobs in their groups: on a folder that stands in for the kernel's, and on the kernel's own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from agents.actuators import cgroup
from agents.actuators.base import Condition
from agents.actuators.cgroup import Groups
from agents.actuators.lodging import Lodgings
from agents.actuators.process import ProcessRuntime
from agents.actuators.recipe import ProcessSettings
from agents.wire.names import EventKind, Origin
from tests.agents.actuators.test_process import until, wait_for
from tests.agents.actuators.trees import GIB, fill, kernels, remove_stand_in, stand_in
from tests.agents.cast import PLACEMENT_ID, Stage, desired, placement

SLEEPER = placement(command=("sh", "-c", "sleep 60 & setsid sleep 60 & wait"))
LATER = 1e9
OVER = {"memory_current": f"{10 * GIB}\n", "memory_stat": "inactive_file 0\n"}


class Lodger:
    """One job in its group."""

    def __init__(self, folder, root):
        settings = ProcessSettings(folder / "jobs", groups=Groups(root), memory_bytes=8 * GIB)
        self.runtime = ProcessRuntime(settings, {0: "GPU-0", 1: "GPU-1"})
        self.group = root / f"{cgroup.PREFIX}{PLACEMENT_ID}"

    def observe(self, now):
        return self.runtime.observe(PLACEMENT_ID, now)


@pytest.fixture
def lodger(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "rmdir", remove_stand_in)
    lodger = Lodger(tmp_path, stand_in(tmp_path / "muxflow"))
    yield lodger
    lodger.runtime.kill(PLACEMENT_ID)
    until(lodger.runtime, Condition.EXITED, Condition.NEVER_RAN)


def test_the_job_enters_its_group_before_its_command_runs(lodger):
    lodger.runtime.start(SLEEPER)
    until(lodger.runtime, Condition.ALIVE)

    assert (lodger.group / "cgroup.procs").read_text() == "0"


def test_a_job_at_its_limit_is_said_to_go_after_the_second_look(lodger):
    lodger.runtime.start(SLEEPER)
    until(lodger.runtime, Condition.ALIVE)
    fill(lodger.group, **OVER)
    lodger.observe(LATER)
    assert lodger.observe(LATER + 0.5).host_memory_short == ""

    assert "10.0 GiB of the 8.0 GiB" in lodger.observe(LATER + 1).host_memory_short


def test_a_node_stops_a_job_at_its_limit_before_the_kernel_kills_it(lodger, tmp_path):
    stage = Stage(tmp_path / "state", runtime=lodger.runtime)
    stage.healthy()
    stage.order(desired(SLEEPER, generation=2))
    stage.run(1)
    until(lodger.runtime, Condition.ALIVE)
    fill(lodger.group, **OVER)
    stage.run(3)
    until(lodger.runtime, Condition.EXITED)
    fill(lodger.group, cgroup_events="populated 0\n")
    stage.run(1)

    (begun,), (ended,) = map(stage.told, (EventKind.EVICTION_STARTED, EventKind.PLACEMENT_ENDED))
    assert begun.data["origin"] == Origin.EMERGENCY
    assert "10.0 GiB of the 8.0 GiB of host memory" in begun.data["why"]
    assert (ended.data["exit_code"], ended.data["avoid"]) == (-signal.SIGTERM, "node")
    assert not lodger.group.exists()
    stage.die()


def test_the_end_says_that_the_kernel_killed_it_for_memory_and_the_group_goes(lodger):
    lodger.runtime.start(SLEEPER)
    fill(lodger.group, memory_events="oom_kill 1\n")
    pid = until(lodger.runtime, Condition.ALIVE).pid
    os.kill(pid, signal.SIGKILL)
    facts = until(lodger.runtime, Condition.EXITED)
    assert facts.exit_code == -signal.SIGKILL
    assert facts.why.startswith("the kernel killed 1 of its processes for want of host memory")
    assert facts.remarks == (facts.why,)
    assert lodger.group.exists()  # somebody is said to live there still

    fill(lodger.group, cgroup_events="populated 0\n")

    lodger.runtime.why_no_room()  # asked once a second
    assert not lodger.group.exists()
    assert lodger.observe(0.0).why == facts.why


def test_the_next_agent_finds_the_group_whatever_its_settings_are(lodger, tmp_path):
    lodger.runtime.start(SLEEPER)
    until(lodger.runtime, Condition.ALIVE)
    fill(lodger.group, **OVER)

    heir = ProcessRuntime(ProcessSettings(tmp_path / "jobs"), {0: "GPU-0"})
    heir.adopt(SLEEPER)
    heir.observe(PLACEMENT_ID, LATER)

    assert heir.observe(PLACEMENT_ID, LATER + 1).host_memory_short


def test_a_group_that_an_agent_made_before_it_died_goes_with_the_next(lodger):
    lodger.runtime._lodgings.create(PLACEMENT_ID)
    fill(lodger.group, cgroup_events="populated 0\n")

    lodger.runtime.adopt(SLEEPER)

    assert lodger.observe(0.0).condition is Condition.NEVER_RAN
    assert not lodger.group.exists()


def test_a_group_that_cannot_be_entered_is_no_job(tmp_path, monkeypatch):
    root = stand_in(tmp_path / "muxflow")
    lodger = Lodger(tmp_path, root)
    launch = lodger.runtime._launch
    monkeypatch.setattr(lodger.runtime, "_launch", lambda _: os.getpid())
    lodger.runtime.start(SLEEPER)
    lodger.group.rename(tmp_path / "gone")
    lodger.runtime._supervisors[PLACEMENT_ID] = launch(tmp_path / "jobs" / PLACEMENT_ID)

    facts = until(lodger.runtime, Condition.EXITED)

    assert facts.why.startswith(f"cannot enter the group {lodger.group}: No such file")


def test_without_groups_the_host_alone_is_watched(tmp_path):
    proc = tmp_path / "proc"
    for pid, resident, children in ((7, 900, "8"), (8, 300, ""), (9, 1_100, "")):
        threads = proc / str(pid) / "task" / str(pid)
        threads.mkdir(parents=True)
        (threads / "children").write_text(children)
        (proc / str(pid) / "statm").write_text(f"5000 {resident} 50 0 0 0 0\n")
    own = proc / str(os.getpid()) / "task" / str(os.getpid())
    own.mkdir(parents=True)
    (own / "children").write_text("")
    (proc / "meminfo").write_text(
        "MemTotal: 1000000 kB\nMemAvailable: 40000 kB\nHugePages_Total: 0\n"
    )
    lodgings = Lodgings(None, 0, proc)

    for now in (0.0, 1.0):
        assert lodgings.is_due(now)
        lodgings.look({"a": 7, "b": 9, "c": None}, now)

    assert "of the jobs here this one holds most" in lodgings.why_leave("a")
    assert lodgings.why_leave("b") == lodgings.why_leave("c") == ""
    assert lodgings.why_full() == "the host has 0.0 GiB of 1.0 GiB memory left"


def test_on_the_kernels_own_groups_everything_of_a_job_is_in_its_group_and_goes_with_it(tmp_path):
    """Where this user may make none, as in most containers, there is nothing to see."""
    with kernels() as root:
        if root is None:
            return
        lodger = Lodger(tmp_path, root)
        lodger.runtime.start(SLEEPER)
        pid = until(lodger.runtime, Condition.ALIVE).pid
        inside = wait_for(lambda: len(pids := listed(lodger.group)) == 3 and pids)
        assert pid in inside
        assert os.getpid() not in inside
        assert lodger.observe(0.0).cgroup in (f"/{root.name}/{lodger.group.name}",)

        lodger.runtime.kill(PLACEMENT_ID)

        until(lodger.runtime, Condition.EXITED)
        wait_for(lambda: lodger.runtime.why_no_room() == "" and not lodger.group.exists())


def listed(group):
    return [int(line) for line in (group / "cgroup.procs").read_text().split()]
