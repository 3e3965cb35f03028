"""A full disk costs an agent the starts of that time and nothing else."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess

import pytest

from agents.state import FILE_NAME
from agents.wire.names import EventKind, PlacementState, Signal
from tests.agents.agent_process import AgentProcess
from tests.agents.cast import PLACEMENT_ID, Stage, desired, placement
from tests.agents.fake_console import FakeConsole, until

OTHER_ID = "01920000-0000-7000-8000-000000000002"


@contextlib.contextmanager
def full_disk(folder):
    """A limit on the size of files stands for it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = (folder / f"{FILE_NAME}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def stage(tmp_path, monkeypatch):
    monkeypatch.setattr("agents.state.RETRY_S", 0.0)
    stage = Stage(tmp_path)
    yield stage
    stage.die()


def test_protection_goes_on_while_the_disk_is_full_and_all_of_it_is_told_later(stage):
    stage.start()
    stage.node.outbox.acknowledge(stage.events[-1].seq)
    stage.events.clear()
    with full_disk(stage.state_dir):
        stage.sensors.values[Signal.SM_ACTIVITY] = 97.0
        stage.run(8)
        assert {"freeze", "sigterm"} <= set(stage.jobs.asked)
        assert stage.events == []
        assert stage.status is not None
    stage.run(1)
    kinds = [event.kind for event in stage.events]
    assert kinds.count(EventKind.FROZEN) == kinds.count(EventKind.PLACEMENT_ENDED) == 1
    numbers = [event.seq for event in stage.events]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_no_job_starts_whose_start_could_not_be_remembered(stage):
    stage.healthy()
    with full_disk(stage.state_dir):
        stage.order(desired(placement(), generation=2))
        stage.run(2)
        assert "start" not in stage.jobs.asked
    stage.order(desired(placement(), placement(placement_id=OTHER_ID, gpu_index=1), generation=3))
    stage.run(2)
    assert stage.jobs.asked.count("start") == 1 + (stage.job(PLACEMENT_ID).end_reason is None)
    assert stage.job(OTHER_ID).state is PlacementState.RUNNING


def test_what_a_full_disk_kept_in_memory_ends_up_on_it(stage):
    stage.start()
    with full_disk(stage.state_dir):
        stage.jobs.exit(0)
        stage.run(1)
    stage.run(1)
    stage.restart()
    stage.run(1)
    assert stage.job() is not None
    assert [event.data["exit_code"] for event in stage.told(EventKind.PLACEMENT_ENDED)] == [0]


class SmallDisk:
    """A file system of a megabyte where that may be made; else a limit on the agent's files."""

    def __init__(self, folder):
        self.folder = folder
        self.folder.mkdir()
        made = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
        self.is_real = (
            os.geteuid() == 0 and subprocess.run(made, capture_output=True).returncode == 0
        )

    def fill(self, pid, state_dir):
        if not self.is_real:
            size = (state_dir / FILE_NAME).stat().st_size
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            return
        with contextlib.suppress(OSError), (self.folder / "ballast").open("wb", 0) as ballast:
            while True:
                ballast.write(bytes(4_096))

    def free(self, pid):
        if not self.is_real:
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
            return
        (self.folder / "ballast").unlink()

    def close(self):
        if self.is_real:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=True)


@pytest.fixture
def small_disk(tmp_path):
    disk = SmallDisk(tmp_path / "disk")
    yield disk
    disk.close()


@pytest.mark.timeout(90)
async def test_a_real_agent_says_once_that_its_disk_is_full_and_goes_on(tmp_path, small_disk):
    async with FakeConsole() as console:
        agent = AgentProcess(tmp_path, console.url, state_dir=small_disk.folder / "state")
        process = agent.start()
        try:
            await until(lambda: console.hellos, timeout_s=30)
            await console.desire(desired())
            await until(lambda: console.statuses and console.status.observed_generation == 1)
            small_disk.fill(process.pid, agent.state_dir)
            seen = len(console.telemetry)
            await console.desire(desired(placement(command=("sleep", "60")), generation=2))
            await until(lambda: console.status.observed_generation == 2)
            await until(lambda: agent.warnings())
            await until(lambda: len(console.telemetry) > seen + 2)
            small_disk.free(process.pid)
            await until(lambda: "written down again" in (tmp_path / "log").read_text())
            (told,) = (line for line in agent.warnings() if "cannot be written down" in line)
            assert "what runs is protected as before" in told
            after = desired(placement(placement_id=OTHER_ID, command=("true",)), generation=3)
            await console.desire(after)
            await until(lambda: OTHER_ID in [event.placement_id for event in console.events])
        finally:
            agent.kill()
