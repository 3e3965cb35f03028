"""The stand-in driver and daemon of one GPU, working together."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from agents.mps import unit
from agents.mps.control import Control
from agents.mps.watch import Watch
from agents.stub import mps_daemon
from tests.agents.xcuda.running import BUILD, Runner, Server, build, can_build

LONG = ("--kernel", "step_20000us", "--grid", 1000, "--seconds", 60)
TIMED = {"STUB_TIME": "1"}


@pytest.fixture
def driver(tmp_path, monkeypatch):
    if not can_build():
        pytest.skip("compiler: the stand-in driver needs make and a C compiler")
    build("stub", "programs", BUILD / "mps-report")
    monkeypatch.setenv("STUB_MPS", str(tmp_path / "mps"))
    monkeypatch.setenv("STUB_MPS_REPORT", str(BUILD / "mps-report"))
    monkeypatch.setattr(unit, "is_installed", lambda: False)
    return Server(tmp_path / "mps")


@pytest.fixture
def watch(driver, tmp_path):
    place = unit.place_of("GPU-1", tmp_path / "node")
    program = (str(mps_daemon.write_program(tmp_path)),)
    daemon = unit.start_detached(place, program)
    watch = Watch(Control(place, program))
    yield watch
    watch.close()
    with contextlib.suppress(ProcessLookupError):
        os.kill((unit.find(place) or daemon).pid, signal.SIGKILL)


@pytest.fixture
def runner(tmp_path):
    """What it started is ended with the test."""
    with contextlib.closing(Runner(tmp_path)) as runner:
        yield runner


@pytest.fixture
def start(driver, runner):
    """Starts a program that keeps the simulated GPU busy."""
    return lambda kind: runner.start("loop", kind, *LONG, preload=False, server=driver, env=TIMED)


def clients(watch):
    ask, dialect = watch.control.ask, watch.control.dialect
    return {client.pid for client in ask(dialect.clients())}
