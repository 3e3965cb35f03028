"""What the tiny parent of a job does by itself: its log, and who its processes are."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from agents import supervisor
from agents.supervisor import Supervision

WRITER = "for number in range({}): print(f'{{number:09}}', flush=True)"


@pytest.fixture
def supervision(tmp_path):
    """Of a job that is played by the test."""
    made = Supervision.__new__(Supervision)
    vars(made).update(_directory=tmp_path, _spec={"log_bytes": 1 << 16})
    return made


def written(folder):
    return [folder / name for name in ("log.1", "log") if (folder / name).exists()]


def test_no_line_is_lost_while_a_log_is_moved_aside(supervision, tmp_path):
    """Its file system can take blocks from the front of a file, as ext4 and XFS can."""
    seen = []
    with (tmp_path / "log").open("ab") as log:
        job = subprocess.Popen([sys.executable, "-c", WRITER.format(60_000)], stdout=log)
        while job.poll() is None:
            seen += turn(supervision, tmp_path)
    seen += turn(supervision, tmp_path)

    if can_collapse(tmp_path):
        text = b"".join(seen) + (tmp_path / "log").read_bytes()
        assert text.split() == [b"%09d" % number for number in range(60_000)]


def turn(supervision, folder):
    """What one look moved aside."""
    supervision._bound_log()
    aside = folder / "log.1"
    if not aside.exists():
        return []
    text = aside.read_bytes()
    aside.unlink()
    return [text]


def can_collapse(folder):
    trial = folder / "trial"
    trial.write_bytes(bytes(1 << 16))
    file = os.open(trial, os.O_RDWR)
    try:
        return supervisor._collapse(file, 1 << 12)
    finally:
        os.close(file)


@pytest.mark.parametrize("collapses", [True, False])
def test_a_full_log_is_all_there_in_two_files(supervision, tmp_path, monkeypatch, collapses):
    if not collapses:
        monkeypatch.setattr(supervisor, "_collapse", lambda file, length: False)
    text = os.urandom(100_001)
    (tmp_path / "log").write_bytes(text)

    supervision._bound_log()

    assert b"".join(path.read_bytes() for path in written(tmp_path)) == text
    assert (tmp_path / "log").stat().st_size < 1 << 16


def test_a_log_within_its_bound_is_left_alone(supervision, tmp_path):
    (tmp_path / "log").write_bytes(bytes(1 << 16))

    supervision._bound_log()

    assert written(tmp_path) == [tmp_path / "log"]


def test_a_process_whose_name_is_no_text_hides_nobody():
    code = "open('/proc/self/comm', 'wb').write(b') \\xff ('); print(flush=True); input()"
    command = [sys.executable, "-IS", "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        began = supervisor.start_ticks(child.pid)
        children = supervisor._children()
        child.communicate(b"\n")
    assert began is not None
    assert child.pid in children
