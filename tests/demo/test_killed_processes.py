"""Kill any one process: it comes back, everything converges, and no placement runs twice."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime

import pytest

from console.demo.real_node import why_without_xcuda
from tests.demo.running import ROOT, Demo, eventually, is_alive, share

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(600),
]

STARTED_AGAIN_S, CONVERGED_S = 60, 180


@pytest.fixture(autouse=True)
def sharing(demo: Demo) -> None:
    """Jobs are running before anything is killed."""
    share(demo)
    eventually(lambda: demo.placements("RUNNING") >= 20, 120, "20 jobs run")


@pytest.mark.parametrize("name", ["web", "worker", "beat", "redis", "fleet", "node-17", "lab"])
def test_the_system_converges_after_a_kill(demo: Demo, name: str) -> None:
    if name == "lab" and (why := why_without_xcuda(ROOT / "build/xcuda")):
        pytest.skip(f"compiler: {why}")
    again = kill(demo, name)
    eventually(lambda: demo.get("/healthz"), CONVERGED_S, "the pages answer")
    submit_a_job(demo)
    eventually(lambda: is_converged(demo, again), CONVERGED_S, "nodes have what they should")
    eventually(lambda: has_worked_since(demo, again), CONVERGED_S, "rounds and samples go on")
    eventually(lambda: demo.placements("RUNNING") >= 20, CONVERGED_S, "jobs run again")
    assert started_twice(demo) == []


def test_jobs_outlive_their_agent_and_the_next_one_adopts_them(demo: Demo) -> None:
    eventually(lambda: process_jobs(demo), 120, "a real process runs on node-17")
    before = process_jobs(demo)
    again = kill(demo, "node-17")
    eventually(lambda: is_converged(demo, again), CONVERGED_S, "nodes have what they should")
    eventually(lambda: reported_since(demo, again), CONVERGED_S, "the next agent reports a job")
    assert before.items() & process_jobs(demo).items()
    assert started_twice(demo) == []


def kill(demo: Demo, name: str) -> datetime:
    """When it had been started again."""
    killed = demo.pids()[name]
    os.kill(killed, signal.SIGKILL)
    eventually(
        lambda: demo.pids().get(name) not in (killed, None), STARTED_AGAIN_S, f"{name} again"
    )
    return datetime.now(UTC)


def submit_a_job(demo: Demo) -> None:
    """It asks for a round; without it the next one is due after its period."""
    team = str(demo.one("SELECT min(id) FROM workloads_team"))
    size = {"work_h": "1", "memory_gib": "4", "sm_percent": "50", "gpu_util_percent": "80"}
    usual = {"memory_bandwidth_percent": "20", "priority": "0", "max_retries": "3"}
    saving = {"checkpoint": "on_sigterm", "checkpoint_min": "10"}
    demo.post("/jobs/new/", name="after-the-kill", team=team, **size, **usual, **saving)


def is_converged(demo: Demo, moment: datetime) -> bool:
    """All nodes were heard of since then, and have applied what is desired of them."""
    behind = demo.one(
        "SELECT count(*) FROM inventory_node WHERE state != 'CONNECTED'"
        " OR observed_generation < generation OR last_seen_at < ?",
        as_stored(moment),
    )
    return behind == 0 and demo.placements("UNKNOWN") == 0


def has_worked_since(demo: Demo, moment: datetime) -> bool:
    """Beat rang, the worker heard it, and what it saw came over Redis."""
    since = as_stored(moment)
    done = "SELECT count(*) FROM scheduling_round WHERE state = 'DONE' AND started_at > ?"
    seen = "SELECT count(*) FROM telemetry_fleetsample WHERE at > ? AND reporting > 0"
    return bool(demo.one(done, since) and demo.one(seen, since))


def reported_since(demo: Demo, moment: datetime) -> bool:
    """Whether a real process that runs has told of its progress."""
    running = "SELECT count(*) FROM scheduling_placement WHERE id = ? AND observed_at > ?"
    return any(demo.one(running, one, as_stored(moment)) for one in process_jobs(demo))


def as_stored(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M:%S.%f}"


def process_jobs(demo: Demo) -> dict[str, int]:
    """Placement and process id of the real processes that run; an agent that has just started holds
    them until it has seen online settle."""
    running = demo.rows(
        "SELECT placement.id FROM scheduling_placement AS placement"
        " JOIN inventory_gpu AS gpu ON gpu.id = placement.gpu_id"
        " JOIN inventory_node AS node ON node.id = gpu.node_id"
        " WHERE node.name = 'node-17' AND placement.state IN ('RUNNING', 'FROZEN')"
    )
    alive = {
        path.parent.name.replace("-", ""): int(json.loads(path.read_text())["pid"])
        for path in demo.folder.glob("state/node-17/jobs/*/started.json")
    }
    return {one: alive[one] for (one,) in running if one in alive and is_alive(alive[one])}


def started_twice(demo: Demo) -> list[tuple[object, ...]]:
    return demo.rows(
        "SELECT placement_id, count(*) FROM telemetry_nodeevent"
        " WHERE kind = 'placement_started' GROUP BY placement_id HAVING count(*) > 1"
    )
