from __future__ import annotations

import sqlite3

import pytest

from agents.state import StateDirInUse, StateFile


def test_a_second_agent_on_the_same_directory_is_refused(tmp_path):
    first = StateFile(tmp_path)
    with pytest.raises(StateDirInUse, match="another agent runs on"):
        StateFile(tmp_path)
    first.close()
    StateFile(tmp_path).close()


def test_what_was_committed_is_there_for_others_and_nothing_else(tmp_path):
    state = StateFile(tmp_path)
    state.set_fact("node-01", "kept", b"1")
    state.commit()
    state.set_fact("node-01", "lost", b"2")

    reader = sqlite3.connect(tmp_path / "agent.sqlite3")
    assert reader.execute("SELECT name FROM fact").fetchall() == [("kept",)]

    reader.close()
    state.close()


def test_a_fact_never_written_is_none(tmp_path):
    state = StateFile(tmp_path)
    assert state.fact("node-01", "lease") is None
    state.close()
