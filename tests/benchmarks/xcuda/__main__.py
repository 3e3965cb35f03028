"""`make bench-xcuda`: what xCUDA costs and what it holds, on the stand-in driver."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.agents.xcuda.running import BUILD, Runner, build
from tests.benchmarks.report import Goal, show
from tests.benchmarks.xcuda import costs, exits, neighbours, quota, rates, resolution

GOALS = (
    Goal("launch_added_ns", "added to a launch, ns", most=10),
    Goal("launch_two_threads_added_ns", "the same, two threads, ns", most=13),
    Goal("alloc_pair_added_ns", "added to an allocation and its free, ns", most=150),
    Goal("alloc_pair_ratio_10k_live", "the same with 10,000 live, of itself", most=1.2),
    Goal("memgetinfo_ns", "cuMemGetInfo under a quota, ns", most=100),
    Goal("cuinit_added_ms", "added to cuInit, ms", most=1),
    Goal("quota_rounds", "rounds of two processes racing for a quota", least=100_000),
    Goal("over_quota_events", "moments over the quota", most=0, least=0),
    Goal("requests", "requests of a runtime replayed", least=440),
    Goal("wrong_variants", "answered with another variant", most=0, least=0),
    Goal("exits", "processes told to end at a random moment", least=1_000),
    Goal("unsafe_exits", "died with work in flight", most=0, least=0),
    Goal("rate_error_ratio", "largest error of a rate over one second", most=0.10),
    Goal("policy_latency_ms", "policy followed after, 99th of 100, ms", most=10),
    Goal("online_p99_ratio_unlimited", "online p99 beside an unlimited neighbour", least=2),
    Goal("online_p99_ratio_limited", "online p99 beside a limited one", most=1.2),
    Goal("offline_throughput_ratio", "throughput of the limited one, of alone", least=0.3),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=5, help="interleaved runs (5)")
    parser.add_argument("--rounds", type=int, default=4_000_000, help="of the race (4000000)")
    parser.add_argument("--exits", type=int, default=1_000, help="processes ended (1000)")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments (1)")
    chosen = parser.parse_args()
    build("lib", "stub", "programs", "tools", BUILD / "mps-report")
    with tempfile.TemporaryDirectory() as folder:
        show(measure(Path(folder), chosen), GOALS)


def measure(folder: Path, chosen: argparse.Namespace) -> Mapping[str, Any]:
    with contextlib.closing(Runner(folder)) as runner:
        return {
            "repetitions": chosen.repetitions,
            **costs.measure(runner, chosen.repetitions),
            **quota.race(runner, folder / "quota", chosen.rounds),
            **resolution.replay(runner, folder),
            **rates.errors(runner, folder / "rates", max(1, chosen.repetitions // 2)),
            **rates.policy_latency_ms(runner, folder / "policy"),
            **neighbours.measure(runner, folder / "neighbours", chosen.repetitions),
            **exits.count(runner, folder / "exits", chosen.exits, chosen.seed),
        }


if __name__ == "__main__":
    main()
