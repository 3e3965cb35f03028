"""`make bench-forecast`: how well the online load of the next hour is foretold.

On the public trace of 143 serving pods (GPU utilisation in bins of five minutes, twelve hours, with
its real gaps), walked forward; on generated weeks whose truth is known; and what one forecast of a
whole fleet costs. The constants of the method were chosen on the same trace, on all of it: the
generated weeks played no part in that.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import tracemalloc
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from console.forecasts.series import BIN_S, BINS, HORIZONS, HOURS
from tests.benchmarks.forecast import seasons, trace
from tests.benchmarks.report import Goal, show
from workers.reallocation.forecast import forecast

MINUTES = [h * BIN_S // 60 for h in HORIZONS]
GOALS = (
    Goal("mae_of_last_value", "error over that of the last value, worst horizon", most=0.999),
    Goal("mae_of_moving_mean", "error over the best moving mean, worst horizon", most=0.999),
    Goal("pinball_of_last_value", "pinball loss over the last value, worst horizon", most=0.999),
    Goal("pinball_of_moving_mean", "over the best moving mean, worst horizon", most=0.999),
    Goal("coverage_least", "bins below the 95 % quantile, lowest horizon", least=0.93),
    Goal("coverage_most", "bins below the 95 % quantile, highest horizon", most=0.97),
    Goal("week_of_moving_mean", "two weeks: distance from truth over the mean's, 60 min", most=0.5),
    Goal("week_coverage_least", "two weeks: coverage, lowest horizon", least=0.93),
    Goal("week_coverage_most", "two weeks: coverage, highest horizon", most=0.97),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=20_000, help="of the fleet (20,000)")
    parser.add_argument("--seed", type=int, default=1, help="of the generated series (1)")
    chosen = parser.parse_args()
    folder = os.environ.get("MUXFLOW_DATA")
    if not folder:
        sys.exit("MUXFLOW_DATA names no folder: set it to that of the public data, with traces/.")
    show(measure(Path(folder), chosen.gpus, chosen.seed), GOALS)


def measure(folder: Path, gpus: int, seed: int) -> Mapping[str, Any]:
    y = trace.read(folder)
    found = trace.compare(y)
    weeks = {
        "daily_3_days": seasons.compare(weekend=1.0, days=3, seed=seed),
        "weekly_15_days": seasons.compare(weekend=0.5, days=15, seed=seed),
        "weekly_saturday": seasons.compare(weekend=0.5, days=19, seed=seed),
    }
    _table(found, weeks)
    week = weeks["weekly_15_days"]
    return {
        "pods": int(np.isfinite(y).any(axis=1).sum()),
        "missing_ratio": float(np.isnan(y).mean()),
        "horizons_min": MINUTES,
        "mae_of_last_value": _worst(found, "mae", "last_value"),
        "mae_of_moving_mean": _worst(found, "mae", "moving_mean"),
        "pinball_of_last_value": _worst(found, "pinball", "last_value"),
        "pinball_of_moving_mean": _worst(found, "pinball", "moving_mean"),
        "coverage_least": min(one["coverage"] for one in found["forecast"]),
        "coverage_most": max(one["coverage"] for one in found["forecast"]),
        "week_of_moving_mean": week["truth_mae"][-1] / week["moving_mean_mae"][-1],
        "week_coverage_least": min(week["coverage"]),
        "week_coverage_most": max(week["coverage"]),
        "trace": found,
        "seasons": weeks,
        **_fleet(gpus, seed),
    }


def _worst(found: Mapping[str, Any], figure: str, rival: str) -> float:
    """Ours over the best of the rivals so named, at the horizon where that is highest."""
    rivals = [of for name, of in found.items() if name.startswith(rival)]
    return max(
        ours[figure] / min(of[place][figure] for of in rivals)
        for place, ours in enumerate(found["forecast"])
    )


def _fleet(gpus: int, seed: int) -> dict[str, float]:
    """CPU seconds and peak memory of one forecast, 2,000 GPUs at a time as the console asks."""
    bins = np.arange(HOURS * seasons.PER_HOUR, dtype=np.float32)
    y = seasons.measured(seasons.truth(bins, 0.5), np.random.default_rng(seed))
    part = seasons.past(np.tile(y, (50, 1)), len(bins) - 1)
    assert part.bins.shape[1] == BINS
    tracemalloc.start()
    began = time.process_time()
    forecast(part)
    seconds = time.process_time() - began
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    parts = gpus / len(part.bins)
    return {"n_gpus": gpus, "fleet_cpu_s": seconds * parts, "part_peak_mib": peak / 2**20}


def _table(found: Mapping[str, Any], weeks: Mapping[str, Any]) -> None:
    """Points are percent of one GPU."""
    print("Trace: mean absolute error and pinball loss of the 95 % quantile in points, coverage")
    print(f"{'':24}" + "".join(f"{f'{minutes} min':>22}" for minutes in MINUTES))
    for name, of in found.items():
        cells = [f"{a['mae']:7.2f} {a['pinball']:6.2f} {a['coverage']:6.1%}" for a in of]
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells))
    print("Generated: distance from the truth, that of the last hour's mean, coverage")
    for name, of in weeks.items():
        columns = zip(of["truth_mae"], of["moving_mean_mae"], of["coverage"], strict=True)
        cells = [f"{a:7.2f} {b:6.2f} {c:6.1%}" for a, b, c in columns]
        print(f"{name:24}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main()
