from __future__ import annotations

import os

import pytest

from agents.mps import tail
from agents.mps.tail import Tail


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "server.log"
    path.write_text("first\n")
    return path


@pytest.fixture
def log(path):
    log = Tail(path)
    yield log
    log.close()


def add(path, text):
    with path.open("a") as file:
        file.write(text)


def test_a_line_is_told_once_and_only_when_it_is_complete(path, log):
    assert log.lines() == ["first"]
    add(path, "sec")
    assert log.lines() == []
    add(path, "ond\nthird\n")
    assert log.lines() == ["second", "third"]


def test_a_rotated_log_is_read_to_its_end_and_on_from_the_next(path, log):
    log.lines()
    add(path, "last of the old\n")
    path.rename(path.with_suffix(".1"))
    path.write_text("first of the new\n")
    assert log.lines() == ["last of the old", "first of the new"]


def test_a_truncated_log_begins_anew(path, log):
    log.lines()
    path.write_text("new\n")
    assert log.lines() == ["new"]


def test_a_log_that_comes_later(tmp_path):
    log = Tail(tmp_path / "later.log")
    assert log.lines() == []
    assert "No such file" in log.trouble
    (tmp_path / "later.log").write_text("here\n")
    assert log.lines() == ["here"]
    assert log.trouble == ""
    log.close()


def test_a_removed_log_is_no_error(path, log):
    log.lines()
    path.unlink()
    assert log.lines() == []


def test_of_a_long_log_only_the_end_is_read(path, log):
    path.write_text("".join(f"{number:07}\n" for number in range(100_000)))
    lines = log.lines()
    assert lines[-1] == "0099999"
    assert len(lines) <= tail.FIRST_BYTES // 8


def test_one_look_at_a_flood_is_bounded_and_the_next_goes_on(path, log):
    log.lines()
    add(path, "x\n" * tail.LOOK_BYTES)
    assert len(log.lines()) == tail.LOOK_BYTES // 2
    assert len(log.lines()) == tail.LOOK_BYTES // 2


def test_a_line_without_end_is_cut(path, log):
    log.lines()
    add(path, "y" * 500_000)
    log.lines()
    log.lines()
    add(path, "\nnext\n")
    lines = log.lines()
    assert lines[-1] == "next"
    assert all(len(line) <= tail.LINE_BYTES for line in lines)


def test_bytes_that_are_no_text_are_replaced(path, log):
    path.write_bytes(b"\xff\xfe\x00broken\n")
    assert "broken" in log.lines()[0]


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_holds_nobody_up(tmp_path, make):
    make(tmp_path / "odd")
    log = Tail(tmp_path / "odd")
    assert log.lines() == []
    assert "is not a file" in log.trouble


def test_a_log_closed_to_us_says_so(path, log, monkeypatch):
    def closed(*_arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tail.os, "open", closed)
    assert log.lines() == []
    assert "Permission denied" in log.trouble
