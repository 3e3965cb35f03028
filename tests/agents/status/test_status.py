"""`muxflow-agent status` beside an agent that runs, hangs, or is gone."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import time

import pytest

from agents.__main__ import main
from agents.state import StateDirInUse, StateFile, running_pid
from agents.status import board, snapshot
from agents.status.snapshot import Snapshot


@pytest.fixture
def agent(tmp_path):
    """This process, in the place of an agent."""
    state = StateFile(tmp_path)
    yield state
    state.close()


def say(folder, age_s=0.0, pid=None):
    at = time.time() - age_s
    said = Snapshot("0.1.0", pid or os.getpid(), at, 2.0, at - 60, ())
    board.write(str(folder / snapshot.FILE_NAME), snapshot.encode(said))


def status(folder, capsys, *more):
    code = main(["status", "--state-dir", str(folder), *more])
    told = capsys.readouterr()
    return code, told.out, told.err


def test_a_fresh_word_of_a_living_agent_is_good(tmp_path, agent, capsys):
    say(tmp_path)
    code, out, err = status(tmp_path, capsys)
    assert (code, err) == (0, "")
    assert f"PID {os.getpid()}, up 1 min, as of 0 s ago" in out


def test_programs_get_json(tmp_path, agent, capsys):
    say(tmp_path)
    code, out, _ = status(tmp_path, capsys, "--json")
    told = json.loads(out)
    assert (code, told["ok"], told["agent"]["pid"]) == (0, True, os.getpid())


def test_nobody_was_ever_here(tmp_path, capsys):
    assert status(tmp_path, capsys) == (1, "", f"muxflow-agent: no agent runs on {tmp_path}\n")


def test_an_agent_that_is_gone(tmp_path, capsys):
    say(tmp_path, age_s=300)
    (tmp_path / "agent.lock").write_text(f"{os.getpid()} 1\n")
    code, _, err = status(tmp_path, capsys)
    assert (code, err.strip()[-18:]) == (1, "heard of 5 min ago")


def test_an_agent_that_hangs(tmp_path, agent, capsys):
    say(tmp_path, age_s=7)
    code, out, err = status(tmp_path, capsys)
    assert code == 1
    assert "has said nothing for 7 s: this is old" in err
    assert "as of 7 s ago" in out


def test_an_agent_that_has_said_nothing_yet(tmp_path, agent, capsys):
    say(tmp_path, pid=1)
    code, _, err = status(tmp_path, capsys)
    assert code == 1
    assert "only just started" in err


def test_a_file_of_another_version_is_one_sentence(tmp_path, agent, capsys):
    (tmp_path / snapshot.FILE_NAME).write_text("{}")
    code, _, err = status(tmp_path, capsys)
    assert code == 1
    assert len(err.splitlines()) == 1


def test_none_but_the_owner_reads_it_and_nothing_else_is_left(tmp_path):
    say(tmp_path)
    say(tmp_path)
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_second_agent_is_told_who_runs(tmp_path, agent):
    with pytest.raises(StateDirInUse, match=rf"another agent runs on .* \(PID {os.getpid()}\)"):
        StateFile(tmp_path)
    assert running_pid(tmp_path) == os.getpid()


def test_the_lock_of_a_dead_agent_is_no_obstacle(tmp_path):
    code = f"import agents.state as s, os; s.StateFile(s.Path({str(tmp_path)!r})); os._exit(9)"
    subprocess.run([sys.executable, "-c", code], check=False)
    assert running_pid(tmp_path) is None
    StateFile(tmp_path).close()
