"""What the cost of a restart is good for: rounds in which the load of every GPU is another.

The best plan for each moment would move most running jobs each minute, for hardly anything: their
telemetry is noise around what it was. With the migration term (`workers/matching/weights.py`) few
move. Two clusters of the same seed go through the same rounds, one under each rule; what the term
costs is told of single moments: the same facts decided both ways.

python -m tests.benchmarks.matching.churn
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import replace
from statistics import mean
from typing import Any, Final

from console.scheduling.plan import Plan
from console.scheduling.snapshot import Snapshot
from tests.benchmarks.matching.cluster import POOLS, Cluster
from workers.matching.decide import decide
from workers.matching.memory import Memory

GPUS: Final = 4_000
CLASSES: Final = 200
ROUNDS: Final = 3
# Parts of the GPUs whose load is redrawn, and of the jobs that are done and submitted, each round.
EVERY, FEW, JOBS = 1.0, 0.05, 0.02
BUDGET_S: Final = 600.0
NO_LIMIT: Final = dict.fromkeys(POOLS, GPUS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    print(json.dumps(measure(parser.parse_args().seed), indent=2))


def measure(seed: int) -> Mapping[str, Any]:
    """Ratios of all running jobs that move in a round, and of worth that staying costs."""
    figures: dict[str, Any] = {"churn_gpus": GPUS, "churn_rounds": ROUNDS}
    for name, part in (("every", EVERY), ("few", FEW)):
        figures[f"churn_free_{name}_moves_ratio"] = mean(_free(seed, part))
        moves, losses = zip(*_ours(seed, part), strict=True)
        figures[f"churn_{name}_moves_ratio"] = mean(moves)
        figures[f"churn_{name}_loss_ratio"] = mean(losses)
    return figures


def _free(seed: int, part: float) -> list[float]:
    """Moves where a restart costs nothing."""
    cluster, memory = _begin(seed)
    found = []
    for _ in range(ROUNDS):
        cluster.change(part, JOBS)
        plan = _decide(_at_no_cost(cluster.snapshot()), memory)
        found.append(len(plan.moves) / len(cluster.running))
        _run(cluster, plan)
    return found


def _ours(seed: int, part: float) -> list[tuple[float, float]]:
    """Moves, and what is lost against the plan that counts no restarts."""
    cluster, memory = _begin(seed)
    found = []
    for _ in range(ROUNDS):
        cluster.change(part, JOBS)
        snapshot = cluster.snapshot()
        plan = _decide(snapshot, memory)
        best = _decide(_at_no_cost(snapshot), memory)
        moves = len(plan.moves) / len(cluster.running)
        found.append((moves, 1.0 - plan.objective / best.objective))
        _run(cluster, plan)
    return found


def _begin(seed: int) -> tuple[Cluster, Memory]:
    """All that fits runs where the first round puts it."""
    cluster, memory = Cluster(GPUS, GPUS, CLASSES, seed), Memory()
    _run(cluster, _decide(cluster.snapshot(), memory))
    return cluster, memory


def _decide(snapshot: Snapshot, memory: Memory) -> Plan:
    """However many restarts that takes: how many are good is the question here."""
    return decide(replace(snapshot, restarts_left=NO_LIMIT), last=memory, budget_s=BUDGET_S)


def _at_no_cost(snapshot: Snapshot) -> Snapshot:
    rules = replace(snapshot.gpus[0].rules, move_min_gain=0.0, restart_s=0.0)
    return replace(
        snapshot,
        gpus=tuple(replace(gpu, rules=rules) for gpu in snapshot.gpus),
        running=tuple(replace(one, unsaved_work_s=0.0) for one in snapshot.running),
    )


def _run(cluster: Cluster, plan: Plan) -> None:
    """Moves are done at once, and what is placed runs a round later."""
    target = {move.placement_id: move.to_gpu_id for move in plan.moves}
    share = {one.job_id: one.share_percent for one in plan.verdicts if one.from_gpu_id is not None}
    cluster.running = [
        replace(
            one,
            gpu_id=target.get(one.placement_id, one.gpu_id),
            share_percent=share.get(one.job.id, one.share_percent),
        )
        for one in cluster.running
    ]
    cluster.start(plan)


if __name__ == "__main__":
    main()
