"""`make bench-matching`: what a round costs and what it is worth.

A generated cluster goes through whole rounds, from the facts that were read to the decisions and
their reasons, prediction and proof included, without the database: one that knows nothing, and
some after a part of the GPUs and jobs have changed. Beside them on the same weights: scipy on
single GPUs and jobs, greed, and larger and smaller clusters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.benchmarks.matching import churn, rivals, rounds
from tests.benchmarks.matching.cluster import Cluster
from tests.benchmarks.report import Goal, show
from workers.matching import certificate, solve

SIZES = (5_000, 10_000, 20_000, 50_000, 100_000)
GOALS = (
    Goal("round_s", "a round that knows nothing, s", most=1.0),
    Goal("warm_round_s", "a round after 5 % of GPUs and 2 % of jobs changed, s", most=0.3),
    Goal("peak_mib", "memory of the process, MiB", most=600),
    Goal("gap_ratio", "upper bound less worth, of all rounds", most=0, least=0),
    Goal("infeasible_least", "pairs that may not be made", least=0.30),
    Goal("infeasible_most", "pairs that may not be made", most=0.45),
    Goal("certify_s", "proving a round, s", most=0.05),
    Goal("churn_every_moves_ratio", "running jobs that move when all loads change", most=0.01),
    Goal("churn_every_loss_ratio", "what that costs", most=0.01),
    Goal("speedup_vs_scipy", "scipy's time over ours, same weights", least=100),
    Goal("growth_power", "time grows with the size to the power of", most=1.25),
    Goal("demo_solve_ms", "solving and proving a demo, ms", most=10),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=20_000)
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--classes", type=int, default=500, help="kinds of jobs")
    parser.add_argument(
        "--distinct", type=int, default=5_000, help="jobs of which no two are alike"
    )
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="cluster of the growth")
    parser.add_argument("--predictor", default="", help="a trained network, .npz")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    began_s = time.perf_counter()
    figures = measure(chosen)
    show({**figures, "bench_s": time.perf_counter() - began_s}, GOALS)


def measure(chosen: argparse.Namespace) -> Mapping[str, Any]:
    alike = [f"--seed={chosen.seed}", f"--classes={chosen.classes}"]
    if chosen.predictor:
        alike.append(f"--predictor={chosen.predictor}")
    sizes = f"--gpus={chosen.gpus}", f"--jobs={chosen.jobs}"
    whole = rounds.in_another_process(*sizes, *alike)
    market = rivals.market_of(Cluster(chosen.gpus, chosen.jobs, chosen.classes, chosen.seed))
    growth = [
        (size, rounds.in_another_process(*_alone(size), *alike))
        for size in SIZES
        if size <= chosen.largest
    ]
    figures = {
        "n_gpus": chosen.gpus,
        "n_jobs": chosen.jobs,
        **whole,
        "warm_round_s": whole["warm_many_s"],
        "gap_ratio": max(whole[name] for name in whole if name.endswith("gap_ratio")),
        "infeasible_least": whole["infeasible_ratio"],
        "infeasible_most": whole["infeasible_ratio"],
        **rivals.losses(market),
        **rivals.portable_s(market),
        **rivals.scipy_dense(chosen.classes, chosen.seed),
        "growth": [[size, one["round_cpu_s"]] for size, one in growth],
        "growth_solve": [[size, one["solve_s"]] for size, one in growth],
        "growth_power": _power([(size, one["round_cpu_s"]) for size, one in growth]),
        **churn.measure(chosen.seed),
        **_distinct(chosen.distinct, chosen.seed),
        **_demo(chosen.seed),
    }
    _table(figures)
    return figures


def _alone(size: int) -> Sequence[str]:
    return f"--gpus={size}", f"--jobs={size}", "--cold=1", "--warm=0"


def _power(seconds: Sequence[tuple[int, float]]) -> float:
    """Of the line through the logarithms."""
    if len(seconds) < 2:
        return 0.0
    size, cpu_s = np.log(np.array(seconds, np.float64)).T
    return float(np.polyfit(size, cpu_s, 1)[0])


def _distinct(size: int, seed: int) -> Mapping[str, Any]:
    """Jobs of which no two are alike: what classes would otherwise save."""
    told = rounds.in_another_process(*_alone(size), f"--classes={size}", f"--seed={seed}")
    return {
        "distinct_jobs": size,
        "distinct_round_s": told["round_s"],
        "distinct_solve_s": told["solve_s"],
        "distinct_gap_ratio": told["gap_ratio"],
    }


def _demo(seed: int) -> Mapping[str, Any]:
    market = rivals.market_of(Cluster(300, 250, 40, seed))
    seconds = []
    for _ in range(9):
        began_s = time.perf_counter()
        certificate.prove(market, solve.assign(market))
        seconds.append(time.perf_counter() - began_s)
    return {"demo_solve_ms": 1_000 * float(np.median(seconds))}


def _table(figures: Mapping[str, Any]) -> None:
    lines = (
        ("GPUs, jobs, classes, rows", ("n_gpus", "n_jobs", "job_classes", "gpu_rows")),
        ("predict, solve, certify, explain, s", ("predict_s", "solve_s", "certify_s", "explain_s")),
        ("the same round in CPU seconds", ("round_cpu_s",)),
        ("worth, upper bound, GPUs", ("objective", "upper_bound")),
        ("after 1 % and 5 % of GPUs changed, s", ("warm_few_s", "warm_many_s")),
        ("moves of running jobs in them", ("warm_few_moves_ratio", "warm_many_moves_ratio")),
        (
            "all loads change: moves at no cost, ours, loss",
            (
                "churn_free_every_moves_ratio",
                "churn_every_moves_ratio",
                "churn_every_loss_ratio",
            ),
        ),
        ("lost by best pair first, by first come", ("greedy_loss_ratio", "first_come_loss_ratio")),
        (
            "scipy on GPUs × jobs of, s; ours, s",
            ("scipy_size", "scipy_dense_s", "solve_at_scipy_size_s"),
        ),
        ("without the compiled solver, s", ("portable_solve_s",)),
        (
            "jobs all distinct; round, solve, s",
            ("distinct_jobs", "distinct_round_s", "distinct_solve_s"),
        ),
    )
    for about, keys in lines:
        print(f"{about:48}" + "".join(f"{figures[key]:>14,.4g}" for key in keys))
    for (size, cpu_s), (_, solve_s) in zip(figures["growth"], figures["growth_solve"], strict=True):
        print(
            f"{f'a round of {size:,} GPUs and jobs, solve, CPU s':48}{cpu_s:>14.3f}{solve_s:>14.3f}"
        )


if __name__ == "__main__":
    main()
