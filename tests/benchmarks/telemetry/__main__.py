"""`make bench-telemetry`: a fleet of 20,000 GPUs through one web process, and what lives on it.

Everything runs on this machine: the web process as the product starts it, PostgreSQL, Redis, the
fake fleet; what each costs is told apart by its pid. Parts: `ingest` (ten minutes of the fleet, the
last of them with many tabs, then a storm of reconnects), `rival` (the same against the
straightforward design), `hand_over` (one of two web processes ends), `scrape` (the metrics of the
fleet), `charts` (ranges of history).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from tests.benchmarks.report import Goal, show
from tests.benchmarks.telemetry import charts, hand_over, ingest, rival, scrape

GOALS: Final = {
    "ingest": (
        Goal("n_gpus", "GPUs", least=20_000),
        Goal("duration_s", "seconds", least=600),
        Goal("lost_nodes", "nodes that went stale meanwhile", most=0),
        Goal("gateway_core_ratio", "CPU time of the web process, of one core", most=0.40),
        Goal("fleet_core_ratio", "CPU time of the fake fleet, of one core", most=0.8),
        Goal("latency_p50_s", "sample made to seen in a browser, p50, s", most=0.6),
        Goal("latency_p99_s", "sample made to seen in a browser, p99, s", most=1.3),
        Goal("rss_growth_mib", "growth of the web process with three stalled tabs, MiB", most=20),
        Goal("watchers", "tabs that watch the whole map", least=50),
        Goal("watchers_core_ratio", "CPU time that they cost the web process more", most=0.15),
        Goal("browser_kib_s", "sent to the tab that draws most, KiB/s", most=100),
        Goal("reconnect_all_s", "all nodes back after all broke off at once, s", most=30),
        Goal("storm_page_s", "slowest page meanwhile, s", most=3),
    ),
    "rival": (Goal("cpu_ratio_vs_plain_channels", "CPU time a sample, plain to ours", least=5),),
    "hand_over": hand_over.GOALS,
    "scrape": scrape.GOALS,
    "charts": charts.GOALS,
}

# Before the tabs come, to see what the gateway takes without them.
LEAST_QUIET_S: Final = 30.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=list(GOALS), help="these parts")
    parser.add_argument("--nodes", type=int, default=2_500, help="of the fleet (2500)")
    parser.add_argument("--gpus", type=int, default=8, help="of each node (8)")
    parser.add_argument("--duration-s", type=float, default=600.0, help="of ingest (600)")
    parser.add_argument("--watchers", type=int, default=50, help="tabs at its end (50)")
    parser.add_argument("--watch-s", type=float, default=60.0, help="for so long (60)")
    parser.add_argument("--fleet", choices=("agent", "sender"), default="agent", help="(agent)")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated cluster (1)")
    chosen = parser.parse_args()
    if chosen.duration_s < chosen.watch_s + LEAST_QUIET_S:
        parser.error(f"--duration-s has to be at least --watch-s and {LEAST_QUIET_S:.0f} more")
    size = ingest.Size(
        *(chosen.nodes, chosen.gpus, chosen.duration_s, chosen.watchers, chosen.watch_s),
        *(chosen.seed, chosen.fleet),
    )
    parts: dict[str, Callable[[], dict[str, Any]]] = {
        "ingest": partial(ingest.measure, size),
        "rival": partial(rival.measure, rival.Size()),
        "hand_over": hand_over.measure,
        "scrape": scrape.measure,
        "charts": charts.measure,
    }
    wanted = chosen.only or list(parts)
    figures: dict[str, Any] = {}
    for name in wanted:
        figures |= parts[name]()
    show(figures, [goal for name in wanted for goal in GOALS[name]])


if __name__ == "__main__":
    main()
