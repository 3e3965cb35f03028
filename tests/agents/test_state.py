from __future__ import annotations

import contextlib
import resource
import sqlite3

import pytest

from agents.state import (
    BUSY_MS,
    FILE_NAME,
    RETRY_S,
    StateDirInUse,
    StateFile,
    StateUnusable,
    Table,
)


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


def test_somebody_who_locks_the_file_holds_nobody_up_and_costs_nothing(tmp_path):
    clock = iter([0.0, RETRY_S])
    with contextlib.closing(StateFile(tmp_path, clock=lambda: next(clock))) as state:
        assert state.read("PRAGMA busy_timeout") == [(BUSY_MS,)]
        with contextlib.closing(
            sqlite3.connect(tmp_path / FILE_NAME, isolation_level=None)
        ) as other:
            other.execute("BEGIN IMMEDIATE")
            state.set_fact("node-01", "colour", b"red")
            assert not state.commit()
            assert "locked" in state.refusal
        assert state.commit()
        assert state.fact("node-01", "colour") == b"red"


def test_a_fact_never_written_is_none(tmp_path):
    state = StateFile(tmp_path)
    assert state.fact("node-01", "lease") is None
    state.close()


class Disk:
    """A limit on the size of files stands for a disk that is full."""

    def __init__(self, folder):
        self.folder, self.now = folder, 1_000.0
        self.state = StateFile(folder, lambda: self.now)

    @contextlib.contextmanager
    def full(self):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        size = (self.folder / f"{FILE_NAME}-wal").stat().st_size
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def durable(self):
        with contextlib.closing(sqlite3.connect(self.folder / FILE_NAME)) as reader:
            return reader.execute("SELECT name, body FROM fact ORDER BY name").fetchall()


@pytest.fixture
def disk(tmp_path):
    disk = Disk(tmp_path)
    yield disk
    disk.state.close()


def test_what_a_full_disk_refused_is_written_when_it_has_room_again(disk):
    with disk.full():
        disk.state.set_fact("node-01", "first", b"1")
        assert not disk.state.commit()
        disk.state.set_fact("node-01", "second", b"2")
        assert disk.state.refusal
        assert disk.state.fact("node-01", "first") == b"1"
        assert disk.durable() == []
    disk.now += RETRY_S
    assert disk.state.commit()
    assert disk.durable() == [("first", b"1"), ("second", b"2")]
    assert disk.state.refusal == ""


def test_what_waits_for_a_full_disk_is_a_row_once_however_often_it_changes(disk):
    with disk.full():
        for number in range(1_000):
            disk.state.set_fact("node-01", "lease", b"%d" % number)
        disk.state.put(Table.EVENT, "node-01", 1, False, b"")
        disk.state.remove(Table.EVENT, "node-01", 1)
        assert not disk.state.commit()
        assert len(disk.state._unwritten) == 2
    disk.now += RETRY_S
    disk.state.commit()
    assert disk.durable() == [("lease", b"999")]
    assert disk.state.read("SELECT * FROM event") == []


def test_a_full_disk_is_not_tried_at_every_tick(disk, monkeypatch):
    with disk.full():
        disk.state.set_fact("node-01", "lease", b"1")
        disk.state.commit()
    assert not disk.state.commit()
    disk.now += RETRY_S
    assert disk.state.commit()


def test_a_file_that_is_no_database_is_named_and_left_alone(tmp_path):
    (tmp_path / FILE_NAME).write_bytes(b"something else" * 100)
    for _ in range(2):  # its lock is given back
        with pytest.raises(StateUnusable, match=r"agent\.sqlite3 cannot be used"):
            StateFile(tmp_path)
    assert (tmp_path / FILE_NAME).read_bytes() == b"something else" * 100


def test_the_end_of_an_agent_says_whether_anything_is_lost(tmp_path):
    disk = Disk(tmp_path)
    with disk.full():
        disk.state.set_fact("node-01", "lost", b"1")
        assert not disk.state.close()
        assert disk.state.refusal
    assert StateFile(tmp_path).close()
