from __future__ import annotations

import os
import socket
import sqlite3
from pathlib import Path

import pytest

from console.demo.launcher import CannotStart, code_stamp, copy_database, listen


def test_a_port_in_use_is_one_sentence_with_the_way_out() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(CannotStart, match=rf"Port {port} is in use.*PORT={port + 1}"):
            listen(port)


def test_a_change_of_the_code_makes_a_new_template(tmp_path: Path) -> None:
    source = tmp_path / "console/models.py"
    source.parent.mkdir()
    source.write_text("a = 1")
    before = code_stamp(tmp_path)
    os.utime(source, (1, 1))
    assert code_stamp(tmp_path) != before


def test_a_copied_database_holds_what_is_still_in_the_log(tmp_path: Path) -> None:
    writer = sqlite3.connect(tmp_path / "a.sqlite3")
    writer.executescript("PRAGMA journal_mode=WAL; CREATE TABLE t (n); INSERT INTO t VALUES (7);")
    copy_database(tmp_path / "a.sqlite3", tmp_path / "b.sqlite3")
    copy = sqlite3.connect(tmp_path / "b.sqlite3")
    assert copy.execute("SELECT n FROM t").fetchall() == [(7,)]
    copy.close()
    writer.close()
