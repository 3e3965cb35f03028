"""What an agent remembers across its own death and a power cut: one SQLite file.

Writes of one round of the loop share a transaction, so "this placement ended" and the event that
says so are durable together or not at all.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final

from agents.supervisor import start_ticks

LOCK_NAME: Final = "agent.lock"
SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    node TEXT, seq INTEGER, terminal INTEGER, body BLOB, PRIMARY KEY (node, seq)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS placement (
    node TEXT, placement_id TEXT, body BLOB, PRIMARY KEY (node, placement_id)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fact (
    node TEXT, name TEXT, body BLOB, PRIMARY KEY (node, name)
) WITHOUT ROWID;
"""


class StateDirInUse(RuntimeError):
    """Another agent runs on this state directory."""


class StateFile:
    """The open file; also the lock that keeps a second agent off it."""

    def __init__(self, state_dir: Path) -> None:
        """Raises StateDirInUse."""
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _lock(state_dir / LOCK_NAME)
        self._connection = sqlite3.connect(state_dir / "agent.sqlite3", isolation_level=None)
        # FULL syncs the log at every commit: a commit that returned survives a power cut.
        self._connection.executescript(
            f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; {SCHEMA}"
        )

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(query, parameters).fetchall()

    def write(self, statement: str, parameters: Sequence[Any] = ()) -> None:
        """Joins the open transaction; durable once `commit` returned."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(statement, parameters)

    def commit(self) -> None:
        """Makes every write so far durable. Raises sqlite3.Error when the disk refuses."""
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")

    def fact(self, node: str, name: str) -> bytes | None:
        """A small named value of one node, None where it was never written."""
        rows = self.read("SELECT body FROM fact WHERE node = ? AND name = ?", (node, name))
        return rows[0][0] if rows else None

    def set_fact(self, node: str, name: str, body: bytes) -> None:
        self.write("INSERT OR REPLACE INTO fact VALUES (?, ?, ?)", (node, name, body))

    def close(self) -> None:
        self.commit()
        self._connection.close()
        self._lock.truncate(0)
        self._lock.close()


def _lock(path: Path) -> TextIOWrapper:
    """The kernel lets go of it when its holder dies, however that happens."""
    lock = path.open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        holder = read_holder(path.parent)
        raise StateDirInUse(
            f"another agent runs on {path.parent}{f' (PID {holder[0]})' if holder else ''}:"
            " stop it, or give this one its own --state-dir"
        ) from error
    lock.truncate(0)
    lock.write(f"{os.getpid()} {start_ticks(os.getpid())}\n")
    lock.flush()
    return lock


def read_holder(state_dir: Path) -> tuple[int, int] | None:
    """PID and start time (clock ticks since boot) of who took the lock last, alive or not."""
    try:
        pid, ticks = (state_dir / LOCK_NAME).read_text().split()
        return int(pid), int(ticks)
    except (OSError, ValueError):
        return None


def running_pid(state_dir: Path) -> int | None:
    """The agent that runs on this directory. Looks only: an agent that starts just now must not
    find its lock taken by a question."""
    holder = read_holder(state_dir)
    return holder[0] if holder and start_ticks(holder[0]) == holder[1] else None
