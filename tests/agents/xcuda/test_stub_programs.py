"""The programs that xCUDA is held to do by themselves what the tests of the library rely on."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

LOOP = Path(__file__).resolve().parents[3] / "agents" / "stub" / "programs" / "loop.py"
TIMED = {"STUB_TIME": "1"}


def test_a_trainer_told_to_stop_leaves_a_complete_checkpoint(bare, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    how = ("--checkpoint", checkpoint, "--kernel", "train_100us", "--save-ms", 1)
    trainer = bare.start("trainer", *how, preload=False, env=TIMED)
    trainer.send_signal(signal.SIGTERM)
    ran = bare.finish(trainer)
    assert (ran.returncode, ran.told["signal"]) == (0, signal.SIGTERM)
    assert checkpoint.read_text().endswith("complete\n")


def test_a_trainer_killed_while_it_saves_leaves_an_incomplete_one(bare, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    how = ("--checkpoint", checkpoint, "--steps", 1, "--save-ms", 5000)
    trainer = bare.start("trainer", *how, preload=False, env=TIMED)
    deadline = time.monotonic() + 8
    while not (checkpoint.exists() and checkpoint.read_text()) and time.monotonic() < deadline:
        time.sleep(0.001)
    trainer.kill()
    trainer.wait()
    assert "complete" not in checkpoint.read_text()


def test_a_service_measures_what_its_requests_take(bare):
    how = ("--requests", 20, "--period-ms", 3, "--kernels", 2, "--kernel", "serve_500us")
    told = bare.run("online", *how, preload=False, env=TIMED).told
    assert told["requests"] == 20
    assert told["device_p50_ms"] >= 0.99
    assert told["p50_ms"] <= told["p99_ms"]


@pytest.mark.parametrize("kind", ["launch", "launch-sync", "copy", "graph", "alloc"])
def test_a_python_loop_is_interrupted_as_python_is(bare, kind):
    command = [sys.executable, str(LOOP), kind, "--seconds", "60"]
    loop = bare.start(command, preload=False, env=TIMED)
    loop.send_signal(signal.SIGINT)
    ran = bare.finish(loop)
    assert ran.told["ended"] == "KeyboardInterrupt", ran.stderr
    assert (ran.returncode, ran.told["failed"]) == (0, 0)


@pytest.mark.parametrize(
    ("on_term", "returncode"), [("default", -15), ("exit", 143), ("flag", 0), ("ignore", -9)]
)
def test_a_loop_ends_as_it_is_told_to(bare, on_term, returncode):
    how = ("launch-sync", "--on-term", on_term, "--seconds", 60)
    loop = bare.start("loop", *how, preload=False, env=TIMED)
    loop.send_signal(signal.SIGTERM)
    if on_term == "ignore":
        time.sleep(0.02)
        assert loop.poll() is None
        loop.kill()
    assert bare.finish(loop).returncode == returncode
