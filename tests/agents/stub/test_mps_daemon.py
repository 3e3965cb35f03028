"""The stand-in daemon over the stand-in driver: the clients of the one are those of the other."""

from __future__ import annotations

import contextlib
import os
import signal

import pytest

from agents.mps import unit
from agents.mps.answers import Status
from agents.mps.control import Control
from agents.mps.daemons import restart_server
from agents.mps.health import ServerState
from agents.mps.watch import Watch
from agents.stub import mps_daemon
from tests.agents.mps.conftest import until
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
def start(driver, tmp_path):
    """Starts a program that keeps the simulated GPU busy."""
    with contextlib.closing(Runner(tmp_path)) as runner:
        yield lambda kind: runner.start(
            "loop", kind, *LONG, preload=False, server=driver, env=TIMED
        )


def clients(watch):
    ask, dialect = watch.control.ask, watch.control.dialect
    return {client.pid for client in ask(dialect.clients())}


@pytest.mark.timeout(60)
def test_a_terminated_client_can_be_killed_with_work_in_flight(watch, driver, start):
    online, offline = start("launch-sync"), start("launch")
    until(lambda: clients(watch) == {online.pid, offline.pid})
    watch.terminate(offline.pid)
    assert clients(watch) == {online.pid}
    offline.kill()
    offline.wait()
    told = driver.report()
    assert (told["state"], told["exits_unsafe"]) == ("ACTIVE", 0)
    assert online.poll() is None


@pytest.mark.timeout(60)
def test_one_that_is_only_killed_takes_the_server_down_until_it_is_restarted(watch, driver, start):
    online, offline = start("launch-sync"), start("launch")
    until(lambda: clients(watch) == {online.pid, offline.pid})
    until(lambda: any(one["in_flight"] for one in driver.report()["clients"]))
    offline.kill()
    offline.wait()
    seen = watch.look(1.0)
    assert seen.state is ServerState.FAULT
    assert seen.account.fault.guilty_pid == offline.pid
    online.kill()
    online.wait()
    restart_server(watch)
    fresh = start("launch-sync")
    until(lambda: clients(watch) == {fresh.pid})
    ask, dialect = watch.control.ask, watch.control.dialect
    assert [ask(dialect.status(pid)) for pid in ask(dialect.servers())] == [Status.ACTIVE]
