from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from agents.stub import trainer


@pytest.fixture
def train(tmp_path):
    """Starts a trainer of 60 GPU-seconds at 100 a second, unless the test wants another."""
    processes = []

    def train(**orders):
        orders = {"WORK_S": "60", "STEP_S": "0.02", "WORLD_CLOCK": "100", **orders}
        environment = {f"MUXFLOW_{name}": value for name, value in orders.items()}
        environment["MUXFLOW_PROGRESS"] = str(tmp_path / "progress.json")
        processes.append(subprocess.Popen([sys.executable, trainer.__file__], env=environment))
        return processes[-1]

    yield train
    for process in processes:
        process.kill()
        process.wait()


@pytest.fixture
def told(tmp_path):
    def told():
        path = tmp_path / "progress.json"
        while not path.exists():
            time.sleep(0.01)
        return json.loads(path.read_text())

    return told


def test_it_works_to_its_end_and_exits_0(train, told):
    assert train().wait(timeout=8) == 0
    assert told()["work_done_s"] == told()["saved_work_s"] == 60
    assert told()["progress"] == 1


def test_it_goes_on_from_the_saved_work(train, told):
    train(RESUME_WORK_S="600", WORK_S="6000")
    assert told()["work_done_s"] > 600


def test_told_to_stop_it_saves_at_the_next_step(train, told):
    process = train(WORK_S="6000")
    told()
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=5) == 0
    assert 0 < told()["work_done_s"] < 6000
    assert told()["saved_work_s"] == told()["work_done_s"]
