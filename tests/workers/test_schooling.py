"""The child that trains: its progress is told, its end is known, and it never outlives its run."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
import time
from pathlib import Path

import pytest

from console.predictor.training import CannotTrain, Lesson, Stopped
from workers import schooling

LESSON = Lesson("a,b\n", simulated=True, seed=3, active=None)
LEARNS = """
import pathlib, sys
print("progress 0.5 Fitting", flush=True)
print("some other line", flush=True)
folder = pathlib.Path(sys.argv[1])
(folder / "version.npz").write_bytes(b"weights")
(folder / "report.json").write_text('{"seed": 3}')
"""
FAILS = "import sys; print('a traceback', file=sys.stderr); sys.exit('Only 12 pairs were there.')"
DIES = "import os; os.kill(os.getpid(), 9)"
HANGS = "import time; time.sleep(60)"


@pytest.fixture
def child(monkeypatch):
    """Runs this program in place of the training."""

    def runs(program: str) -> None:
        def command(lesson: Lesson, folder: Path) -> list[str]:
            return [sys.executable, "-c", program, str(folder)]

        monkeypatch.setattr(schooling, "_command", command)

    return runs


def test_what_the_child_says_and_leaves_is_handed_on(child):
    child(LEARNS)
    heard = []

    def goes_on(part: float, said: str) -> bool:
        heard.append((part, said))
        return True

    learnt = schooling.train(LESSON, goes_on)
    assert (learnt.data, learnt.report) == (b"weights", {"seed": 3})
    assert (0.5, "Fitting") in heard


@pytest.mark.parametrize(
    ("program", "why"), [(FAILS, "Only 12 pairs were there"), (DIES, "ended with status -9")]
)
def test_a_child_that_fails_says_why(child, program, why):
    child(program)
    with pytest.raises(CannotTrain, match=why):
        schooling.train(LESSON, lambda part, said: True)


def test_a_silent_child_is_stopped_with_its_run(child, monkeypatch):
    monkeypatch.setattr(schooling, "LOOK_S", 0.01)
    child(HANGS)
    began_s = time.monotonic()
    with pytest.raises(Stopped):
        schooling.train(LESSON, lambda part, said: False)
    assert time.monotonic() - began_s < 20.0


def test_a_worker_without_room_says_so(monkeypatch):
    def no_room(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "TemporaryDirectory", no_room)
    with pytest.raises(CannotTrain, match="No space left on device"):
        schooling.train(LESSON, lambda part, said: True)


def test_a_version_of_another_release_is_left_out_of_the_comparison(tmp_path):
    command = schooling._command(Lesson("a,b\n", True, 3, b"older"), tmp_path)
    assert "--against" not in command


def test_the_command_names_what_it_learns_from(tmp_path, monkeypatch):
    monkeypatch.setattr(schooling, "_fits", lambda active: True)
    command = schooling._command(Lesson("a,b\n", True, 3, b"active"), tmp_path)
    assert "--simulated" in command
    assert Path(command[command.index("--against") + 1]).read_bytes() == b"active"
    assert (tmp_path / "observations.csv").read_text() == "a,b\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("progress 0.42 Fitting member 2", (0.42, "Fitting member 2")),
        ("progress 7 Beyond", (1.0, "Beyond")),
        ("progress nan", None),
        ("progress x y", None),
        ("Epoch 3", None),
        ("", None),
    ],
)
def test_only_lines_of_progress_count(line, told):
    assert schooling.told(line) == told


def test_without_pytorch_the_worker_says_what_to_do(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    found = schooling.trainer()
    assert found.name == ""
    assert "run `make ml`" in found.missing
