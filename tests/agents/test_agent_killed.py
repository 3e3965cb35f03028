"""SIGKILL of the agent at any moment: no job runs twice, is lost, or loses its limits."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import hypothesis
import pytest

from agents.control_block import BlockError, ControlBlock
from agents.supervisor import start_ticks
from agents.wire.names import EndReason, EventKind
from tests.agents.actuators.conftest import bench
from tests.agents.actuators.trees import kernels
from tests.agents.one_life import LONG_ID, MEMORY_QUOTA_BYTES, short_id

__all__ = ["bench"]
ROOT = Path(__file__).parents[2]
# `make thorough` lives two hundred times, the ordinary tests a few.
ORDINARY = 4


def lives() -> int:
    return max(ORDINARY, hypothesis.settings().max_examples // 50)


def begin(folder, number, *words):
    command = [sys.executable, "-m", "tests.agents.one_life", folder, str(number), *words]
    pipe = subprocess.PIPE
    agent = subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True)
    assert agent.stdout.readline() == "ready\n"
    return agent


@pytest.fixture
def groups(bench):
    """Of the kernel's, where this user may make some: those of jobs must be gone in the end."""
    with kernels() as root:
        if root is not None:
            (bench.folder / "groups").write_text(str(root))
        yield root


@pytest.mark.thorough
@pytest.mark.timeout(900)
@pytest.mark.usefixtures("groups")
def test_an_agent_killed_at_any_moment_runs_no_job_twice_and_accounts_for_each(bench):
    chance = random.Random(7)
    count = lives()
    for number in range(1, count + 1):
        agent = begin(bench.folder, number)
        while not held(bench.folder):  # the first life starts what all others find
            assert agent.poll() is None
            time.sleep(0.02)
        time.sleep(chance.random() * 0.5)
        agent.kill()
        assert "Traceback" not in agent.communicate()[1]

    with ControlBlock(bench.folder / "jobs" / LONG_ID / "xcuda") as block:
        assert block.read_limits().memory_quota_bytes == MEMORY_QUOTA_BYTES
    assert len(held(bench.folder)) == 1
    out, _ = begin(bench.folder, count + 1, "--last").communicate(timeout=30)

    told = json.loads(out)
    ended = {one["id"]: one for one in told[EventKind.PLACEMENT_ENDED]}
    assert len(ended) == len(told[EventKind.PLACEMENT_ENDED]), "an end was told twice"
    assert ended[LONG_ID]["exit_code"] == 143  # released and gone, its supervisor there to see
    check_evictions(told, ended)
    for placement_id in (LONG_ID, *map(short_id, range(1, count + 1))):
        check(placement_id, runs(bench.folder, placement_id), ended.get(placement_id))
    assert_nothing_left(bench.folder)


def held(folder):
    """The processes of the long job that keep to its limits."""
    with (
        contextlib.suppress(BlockError),
        ControlBlock(folder / "jobs" / LONG_ID / "xcuda") as block,
    ):
        return [slot for slot in block.read_slots() if slot.alive]
    return []


def check_evictions(told, ended):
    """Each stop of a node's own is one eviction, and each of its phases is told once."""
    begun = {one["eviction"]: one["id"] for one in told[EventKind.EVICTION_STARTED]}
    assert len(set(begun.values())) == len(told[EventKind.EVICTION_STARTED])
    assert begun[ended[LONG_ID]["eviction"]] == LONG_ID
    phases = [(one["eviction"], one["phase"]) for one in told[EventKind.EVICTION_PHASE]]
    assert len(set(phases)) == len(phases)
    assert {eviction for eviction, _ in phases} <= begun.keys()


def runs(folder, placement_id):
    marks = folder / placement_id
    return len(marks.read_text().splitlines()) if marks.exists() else 0


def check(placement_id, runs, ended):
    assert runs <= 1, placement_id
    if ended is None:
        assert runs == 0, f"{placement_id} ran, and nobody knows how it ended"
    elif ended["exit_code"] == 3:
        # One of a life before may end by itself while the next agent takes it off.
        assert (runs, ended["reason"]) in ((1, EndReason.FAILED), (1, EndReason.EVICTED))
    elif ended["reason"] == EndReason.NEVER_STARTED:
        assert runs == 0


def assert_nothing_left(folder):
    """The last life waited for its jobs; a group outlives the last process by a look at most."""
    if (folder / "groups").exists():
        assert list(Path((folder / "groups").read_text()).glob("job-*")) == []
    for started in folder.glob("jobs/*/started.json"):
        told = json.loads(started.read_text())
        assert start_ticks(told["pid"]) is None
        assert start_ticks(told["supervisor_pid"]) is None
