"""A control daemon that plays its part, and processes that can be its clients."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from agents.mps import unit
from agents.mps.control import Control
from agents.mps.watch import Watch
from agents.stub import mps_control, mps_daemon

UUID = "GPU-cb1213a3-d6a4-be7f-0000-000000000001"


class FakeMps:
    """One GPU's daemon, under the program's own name, told by `fake` what happens."""

    def __init__(self, directory):
        self.directory = directory
        self.place = unit.place_of(UUID, directory)
        self.program = (str(mps_daemon.write_program(directory)),)
        self.control = Control(self.place, self.program)
        self.watch = Watch(self.control)

    def start(self, *, multiuser=False):
        return unit.start_detached(self.place, self.program, multiuser=multiuser)

    def fake(self, *words):
        command = " ".join(["fake", *map(str, words)])
        return mps_control.ask(command, str(self.place.pipe_directory)).strip()

    def server(self):
        return self.control.ask(self.control.dialect.servers())[0]

    def end(self):
        self.watch.close()
        daemon = unit.find(self.place)
        if daemon is not None:
            os.kill(daemon.pid, signal.SIGKILL)


@pytest.fixture
def mps(tmp_path):
    """Not started yet."""
    fake = FakeMps(tmp_path)
    yield fake
    fake.end()


@pytest.fixture
def daemon(mps):
    mps.start()
    return mps


@pytest.fixture
def process():
    """Makes a process that does nothing; give its PID to whoever needs a client."""
    started = []

    def make():
        started.append(subprocess.Popen(["sleep", "60"]))
        return started[-1].pid

    yield make
    for one in started:
        one.kill()
        one.wait()


@pytest.fixture
def script(tmp_path):
    """An executable that runs the given Python, in place of the control program."""

    def write(code):
        path = tmp_path / "program"
        path.write_text(f"#!{sys.executable} -IS\nimport sys, time, os\n{code}\n")
        path.chmod(0o755)
        return (str(path),)

    return write


def until(fact):
    """What `fact` says once it says something; long after a busy machine should have."""
    deadline = time.monotonic() + 25
    while not (value := fact()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)
    return value
