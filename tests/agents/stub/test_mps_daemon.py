"""The stand-in daemon over the stand-in driver: the clients of the one are those of the other."""

from __future__ import annotations

import pytest

from agents.mps.answers import Status
from agents.mps.daemons import restart_server
from agents.mps.health import ServerState
from tests.agents.mps.conftest import until
from tests.agents.stub.conftest import clients


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
