"""What an agent remembers across its own death and a power cut: one SQLite file.

Writes of one round of the loop share a transaction, so "this placement ended" and the event that
says so are durable together or not at all. A disk that refuses them costs none of them: they are
kept in memory, each row once, and written when it takes them again.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Final, TypeAlias

from agents.supervisor import start_ticks

LOCK_NAME: Final = "agent.lock"
FILE_NAME: Final = "agent.sqlite3"
# A disk that refused is not tried again for so long: each try repeats all that waits.
RETRY_S: Final = 1.0
# Whoever looks into the file with a tool of his own and locks it: the loop does not wait for him.
BUSY_MS: Final = 20
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

Key: TypeAlias = int | str


class Table(StrEnum):
    """Each keeps rows of a node under a key of the node's own."""

    EVENT = "event"
    PLACEMENT = "placement"
    FACT = "fact"


PUT: Final = {
    Table.EVENT: "INSERT OR REPLACE INTO event VALUES (?, ?, ?, ?)",
    Table.PLACEMENT: "INSERT OR REPLACE INTO placement VALUES (?, ?, ?)",
    Table.FACT: "INSERT OR REPLACE INTO fact VALUES (?, ?, ?)",
}
REMOVE: Final = {
    Table.EVENT: "DELETE FROM event WHERE node = ? AND seq = ?",
    Table.PLACEMENT: "DELETE FROM placement WHERE node = ? AND placement_id = ?",
    Table.FACT: "DELETE FROM fact WHERE node = ? AND name = ?",
}


class StateDirInUse(RuntimeError):
    """Another agent runs on this state directory."""


class StateUnusable(RuntimeError):
    """The state file cannot be opened; the text says why and what to do."""


class StateFile:
    """The open file; also the lock that keeps a second agent off it."""

    def __init__(self, state_dir: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """Raises StateDirInUse, StateUnusable, OSError."""
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._clock = clock
        self._lock = _lock(state_dir / LOCK_NAME)
        try:
            self._connection = _open(state_dir / FILE_NAME)
        except sqlite3.Error as error:
            self._lock.close()
            raise StateUnusable(
                f"{state_dir / FILE_NAME} cannot be used ({error}): see whether the disk is full,"
                " or broken, and whether the file is this agent's own"
            ) from error
        # What is not durable yet: the columns after the key, None for a row that goes.
        self._unwritten: dict[tuple[Table, str, Key], tuple[Any, ...] | None] = {}
        # Why the disk took nothing at the last try, "" when it did.
        self.refusal = ""
        self._refused_at = float("-inf")

    def read(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """What was put before is seen, durable or not."""
        if self._unwritten:
            self._write()
        return self._connection.execute(query, parameters).fetchall()

    def put(self, table: Table, node: str, key: Key, *columns: Any) -> None:
        """Durable once `commit` says so."""
        self._unwritten[table, node, key] = columns

    def remove(self, table: Table, node: str, key: Key) -> None:
        """Likewise."""
        self._unwritten[table, node, key] = None

    def commit(self) -> bool:
        """Whether all that was put and removed is durable now. When the disk refuses it, `refusal`
        says why, and all of it waits for the next call."""
        if not self._unwritten:
            return True
        if self.refusal and self._clock() - self._refused_at < RETRY_S:
            return False
        try:
            self._write()
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self.refusal, self._refused_at = str(error), self._clock()
            return False
        self._unwritten.clear()
        self.refusal = ""
        return True

    def fact(self, node: str, name: str) -> bytes | None:
        """A small named value of one node, None where it was never written."""
        rows = self.read("SELECT body FROM fact WHERE node = ? AND name = ?", (node, name))
        return rows[0][0] if rows else None

    def set_fact(self, node: str, name: str, body: bytes) -> None:
        self.put(Table.FACT, node, name, body)

    def close(self) -> bool:
        """Whether all is durable; what the disk refuses even now is lost."""
        self._refused_at = float("-inf")
        is_whole = self.commit()
        self._connection.close()
        self._lock.truncate(0)
        self._lock.close()
        return is_whole

    def _write(self) -> None:
        """Into a transaction, which SQLite undoes when the disk refuses it."""
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        for (table, node, key), columns in self._unwritten.items():
            if columns is None:
                self._connection.execute(REMOVE[table], (node, key))
            else:
                self._connection.execute(PUT[table], (node, key, *columns))


def _open(path: Path) -> sqlite3.Connection:
    """Raises sqlite3.Error."""
    connection = sqlite3.connect(path, isolation_level=None)
    # FULL syncs the log at every commit: a commit that succeeded survives a power cut. Without
    # spilling, it is the commit alone that a full disk refuses.
    connection.executescript(
        f"PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_spill=OFF; {SCHEMA}"
    )
    connection.execute(f"PRAGMA busy_timeout={BUSY_MS}")
    return connection


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
