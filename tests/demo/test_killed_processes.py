"""Kill any one process: it comes back, everything converges, and no placement runs twice."""

from __future__ import annotations

import os
import signal

import pytest

from tests.demo.conftest import Demo, eventually

pytestmark = [pytest.mark.demo, pytest.mark.timeout(300)]

CONVERGED_S = 45


@pytest.fixture(autouse=True)
def sharing(demo: Demo) -> None:
    """Jobs are running before anything is killed."""
    demo.sign_in("admin")
    demo.get("/")
    if not running(demo):
        demo.post("/sharing/start/", reason="test of a killed process")
    eventually(lambda: running(demo) >= 20, 60, "20 jobs run")


@pytest.mark.parametrize("name", ["web", "worker", "beat", "redis", "fleet", "node-17"])
def test_the_system_converges_after_a_kill(demo: Demo, name: str) -> None:
    killed = demo.pids()[name]
    last_round = demo.one("SELECT max(id) FROM scheduling_round WHERE state = 'DONE'")
    os.kill(killed, signal.SIGKILL)
    eventually(lambda: demo.pids().get(name, killed) != killed, 20, f"{name} is started again")
    eventually(lambda: demo.get("/healthz"), 20, "the pages answer")
    eventually(lambda: converged(demo), CONVERGED_S, "every node has what is desired of it")
    eventually(lambda: rounds_since(demo, last_round) >= 2, CONVERGED_S, "rounds go on")
    eventually(lambda: running(demo) >= 20, CONVERGED_S, "jobs run again")
    assert started_twice(demo) == []


def converged(demo: Demo) -> bool:
    behind = demo.one(
        "SELECT count(*) FROM inventory_node"
        " WHERE state != 'CONNECTED' OR observed_generation < generation"
    )
    unknown = demo.one("SELECT count(*) FROM scheduling_placement WHERE state = 'UNKNOWN'")
    return behind == 0 and unknown == 0


def running(demo: Demo) -> int:
    count: int = demo.one("SELECT count(*) FROM scheduling_placement WHERE state = 'RUNNING'")
    return count


def rounds_since(demo: Demo, last: int | None) -> int:
    query = "SELECT count(*) FROM scheduling_round WHERE state = 'DONE' AND id > ?"
    count: int = demo.one(query, last or 0)
    return count


def started_twice(demo: Demo) -> list[tuple[object, ...]]:
    return demo.rows(
        "SELECT placement_id, count(*) FROM telemetry_nodeevent"
        " WHERE kind = 'placement_started' GROUP BY placement_id HAVING count(*) > 1"
    )
