"""`muxflow-agent uninstall` on folders like those of a node."""

from __future__ import annotations

import fcntl
import os
import signal
from contextlib import closing

import pytest

from agents.__main__ import main
from agents.mps import unit
from agents.spool import Spool
from agents.state import StateFile
from agents.stub import mps_daemon
from agents.wire.names import EventKind


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A node whose agent ran a job, was switched off, and ended."""
    monkeypatch.setattr("agents.mps.unit.UNIT_DIRECTORIES", (tmp_path / "units",))
    with closing(StateFile(tmp_path / "state")) as state:
        Spool(state, "node-01").append(EventKind.DEGRADED, gpu_index=0, data={})
    job = tmp_path / "state" / "jobs" / "01920000"
    job.mkdir(parents=True)
    for name in ("lock", "spec.json", "exit.json", "log"):
        (job / name).touch()
    (tmp_path / "credentials.json").touch(0o600)
    main(["off", "--state-dir", str(tmp_path / "state")])
    return tmp_path


def uninstall(node, *more):
    where = ["--state-dir", str(node / "state"), "--credentials", str(node / "credentials.json")]
    return main(["uninstall", *where, "--mps-dir", str(node / "mps"), *more])


def tree(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_it_is_told_first_and_nothing_is_changed(node, capsys):
    before = tree(node)
    assert uninstall(node) == 0
    assert tree(node) == before
    told = capsys.readouterr().out
    assert told.endswith("Nothing was changed: --yes does it.\n")
    assert f"remove {node / 'credentials.json'}: identity of this node" in told
    assert "1 events that the console has not been told" in told


def test_then_nothing_is_left(node):
    assert uninstall(node, "--yes") == 0
    assert tree(node) == []


def test_a_second_time_there_is_nothing_to_do(node, capsys):
    uninstall(node, "--yes")
    capsys.readouterr()
    assert uninstall(node, "--yes") == 0
    assert capsys.readouterr().out == "The agent has left nothing here.\nDone.\n"


def test_what_others_put_there_stays(node, capsys):
    (node / "state" / "notes.txt").touch()
    (node / "units").mkdir()
    (node / "units" / "muxflow-agent.service").touch()
    assert uninstall(node, "--yes") == 0
    assert tree(node) == ["state", "state/notes.txt", "units", "units/muxflow-agent.service"]
    assert f"kept: {node / 'units/muxflow-agent.service'}: not made" in capsys.readouterr().out


def test_a_job_that_lives_forbids_it(node, capsys):
    with (node / "state/jobs/01920000/lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = tree(node)
        assert uninstall(node, "--yes") == 1
    assert tree(node) == before
    assert "1 jobs still run (01920000)" in capsys.readouterr().out


def test_an_agent_that_runs_forbids_it(node, capsys):
    with closing(StateFile(node / "state")):
        assert uninstall(node, "--yes") == 1
    assert f"the agent (PID {os.getpid()}) runs" in capsys.readouterr().out


def test_a_daemon_without_clients_is_ended(node, tmp_path_factory, monkeypatch):
    programs = tmp_path_factory.mktemp("programs")
    program = mps_daemon.write_program(programs)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    daemon = unit.start_detached(unit.place_of("GPU-1", node / "mps"), (str(program),))
    try:
        assert uninstall(node, "--yes", "--program", str(program)) == 0
        assert unit.find(unit.place_of("GPU-1", node / "mps")) is None
        assert tree(node) == []
    finally:
        if unit.start_ticks(daemon.pid) == daemon.ticks:
            os.kill(daemon.pid, signal.SIGKILL)
