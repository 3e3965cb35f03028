"""How old what people see becomes while one of two web processes ends and its agents move."""

from __future__ import annotations

from typing import Any, Final

from tests.benchmarks.report import Goal
from tests.benchmarks.telemetry.pair import Pair, oldest_s, pair, until_fresh
from tests.services import postgres_server, redis_server, scratch_folder

GOALS: Final = (
    Goal("hand_over_oldest_s", "oldest sample shown while a web process ends, s", most=2),
)
LOOKS: Final = 40


def measure(nodes: int = 500, gpus: int = 8) -> dict[str, Any]:
    """`hand_over_usual_s`: the oldest seen while nothing ends. A sample is up to a second old
    before the next one comes."""
    with scratch_folder() as folder, postgres_server() as database, redis_server() as live:
        folder.chmod(0o755)
        told = {"DATABASE_URL": database, "REDIS_URL": live}
        with pair(folder, told, nodes, gpus, LOOKS) as two:
            return {"hand_over_nodes": nodes, **_measured(two)}


def _measured(two: Pair) -> dict[str, float]:
    first = two.web()
    two.fleet()
    until_fresh(two.ages)
    second = two.web()
    until_fresh(lambda: two.ages(second))
    usual = two.seen()
    first.terminate()
    meanwhile = two.seen(first)
    return {
        "hand_over_usual_s": max(map(oldest_s, usual)),
        "hand_over_oldest_s": max(map(oldest_s, meanwhile)),
    }
