"""Rounds of one cluster in a process of their own, so that its memory is theirs alone.

python -m tests.benchmarks.matching.rounds --gpus 20000 --jobs 20000 --classes 500
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from console.scheduling.plan import Plan
from console.scheduling.snapshot import Snapshot
from tests.benchmarks.matching.cluster import Cluster
from tests.benchmarks.matching.network import untrained
from workers.matching.decide import decide
from workers.matching.memory import Memory
from workers.matching.uncollected import uncollected
from workers.prediction import artifact
from workers.prediction.predictor import Predictor

# Parts of the GPUs whose load is another, and of the jobs that are done and submitted.
FEW: Final = 0.01
MANY: Final = 0.05
JOBS: Final = 0.02
# No round is given up, however slow the machine.
BUDGET_S: Final = 600.0
# As the rounds name them.
PHASES: Final = {"predict": "score", "solve": "solve", "certify": "prove", "explain": "explain"}


def in_another_process(*arguments: str) -> dict[str, Any]:
    """One core does all of it: more threads of BLAS would spin beside it, and be counted."""
    command = [sys.executable, "-m", "tests.benchmarks.matching.rounds", *arguments]
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(command, env=alone, capture_output=True, text=True, check=True)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cold", type=int, default=3, help="rounds that know nothing")
    parser.add_argument("--warm", type=int, default=3, help="rounds after few and many changes")
    parser.add_argument("--predictor", type=Path, help="a trained network, .npz")
    chosen = parser.parse_args()
    cluster = Cluster(chosen.gpus, chosen.jobs, chosen.classes, chosen.seed)
    asked = artifact.load(chosen.predictor.read_bytes()) if chosen.predictor else untrained()
    print(json.dumps(measure(cluster, asked, chosen.cold, chosen.warm)))


@dataclass(frozen=True)
class Timed:
    """What is kept of a round. A worker lets go of a plan once it is written, and what that took is
    used again by the next one: so does this."""

    wall_s: float
    cpu_s: float
    rivals_s: float
    phases_s: Mapping[str, float]
    moves: int
    gap: float


def measure(cluster: Cluster, asked: Predictor, cold: int, warm: int) -> Mapping[str, Any]:
    snapshot = cluster.snapshot()
    rounds, memory = [], Memory()
    for _ in range(cold):
        memory = Memory()
        plan, timed = one_round(snapshot, asked, memory)
        rounds.append(timed)
    figures = {
        **_cold(rounds),
        **_of(plan, len(snapshot.gpus) * len(snapshot.jobs)),
        "peak_mib": _peak_mib(),
    }
    for name, part in (("few", FEW), ("many", MANY)):
        changed = []
        for _ in range(warm):
            cluster.start(plan)
            cluster.change(part, JOBS)
            plan, timed = one_round(cluster.snapshot(), asked, memory)
            changed.append(timed)
        if changed:
            figures |= _warm(name, changed, plan.inputs["gpus_running"])
    return {**figures, "peak_mib_warm": _peak_mib()}


def one_round(snapshot: Snapshot, asked: Predictor, memory: Memory) -> tuple[Plan, Timed]:
    """`memory` is what the round before left."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    with uncollected():  # as a worker does
        plan = decide(snapshot, asked, memory, budget_s=BUDGET_S)
        began_rivals_s = time.perf_counter()
        plan.rivals()  # they are written with the decisions
        ended_s, ended_cpu_s = time.perf_counter(), time.process_time()
    if plan.late:
        raise RuntimeError("a round took longer than its budget")
    return plan, Timed(
        wall_s=ended_s - began_s,
        cpu_s=ended_cpu_s - began_cpu_s,
        rivals_s=ended_s - began_rivals_s,
        phases_s={phase: plan.seconds.get(phase, 0.0) for phase in PHASES.values()},
        moves=len(plan.moves),
        gap=(plan.upper_bound - plan.objective) / max(1.0, plan.objective),
    )


def _cold(rounds: Sequence[Timed]) -> dict[str, Any]:
    return {
        "round_s": median(one.wall_s for one in rounds),
        "round_cpu_s": median(one.cpu_s for one in rounds),
        "first_round_s": rounds[0].wall_s,
        "rivals_s": median(one.rivals_s for one in rounds),
        **{
            f"{name}_s": median(one.phases_s[phase] for one in rounds)
            for name, phase in PHASES.items()
        },
        "gap_ratio": max(one.gap for one in rounds),
    }


def _of(plan: Plan, pairs: int) -> dict[str, Any]:
    return {
        "placed": len(plan.placings),
        "objective": plan.objective,
        "upper_bound": plan.upper_bound,
        "infeasible_ratio": 1.0 - plan.pairs / pairs,
        "gpu_rows": plan.inputs["gpu_rows"],
        "job_classes": plan.inputs["job_classes"],
        "predictor": plan.predictor,
        "route": plan.inputs["route"],
    }


def _warm(name: str, rounds: Sequence[Timed], running: int) -> dict[str, Any]:
    return {
        f"warm_{name}_s": median(one.wall_s for one in rounds),
        f"warm_{name}_cpu_s": median(one.cpu_s for one in rounds),
        f"warm_{name}_rivals_s": median(one.rivals_s for one in rounds),
        f"warm_{name}_moves_ratio": median(one.moves for one in rounds) / running,
        f"warm_{name}_gap_ratio": max(one.gap for one in rounds),
        f"warm_{name}_phases_s": {
            phase: median(one.phases_s[phase] for one in rounds) for phase in PHASES.values()
        },
    }


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
