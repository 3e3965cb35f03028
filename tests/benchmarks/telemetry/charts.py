"""How long a chart of the past takes to answer, and how much of the disk the past takes.

    python -m tests.benchmarks.telemetry.charts          # 7 days of 2,000 GPUs

On the PostgreSQL that DATABASE_URL names, else on its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.report import Goal, show
from tests.services import postgres_server, scratch_folder

ROOT: Final = Path(__file__).parents[3]
GOALS: Final = (
    Goal("chart_gpu_24h_ms", "24 h of one GPU, answered by the REST view, p95, ms", most=100),
    Goal("chart_pool_24h_ms", "24 h of a pool of 1,000 GPUs, likewise, p95, ms", most=500),
    Goal("bytes_per_gpu_second", "stored a GPU-second of raw history, bytes", most=12),
    Goal("signals_changing_ratio", "values of signals that change each second", least=0.5),
    Goal("history_writer_core_ratio", "of a core to write and roll up 20,000 GPUs", most=0.25),
)


def measure(gpus: int = 2_000, days: int = 7, asks: int = 60) -> dict[str, float]:
    """`chart_*_ms`: the REST view with its middleware, from the request to the whole body, in its
    own process; p95 of `asks` of GPUs drawn at random, `*_p50_ms` the median. Each asks for all
    twelve signals. `bytes_per_gpu_second`: the table with its indexes, over the hours of raw
    history that are kept, of which the last is in minutes (`*_fresh`) and the others are not
    (`*_packed`). `history_writer_core_ratio`: CPU time to write a minute and to roll an hour up,
    both measured with `gpus`, for 20,000."""
    with scratch_folder() as folder, postgres_server() as database:
        variables = os.environ | {
            "DJANGO_SETTINGS_MODULE": "console.settings",
            "DATABASE_URL": database,
            "MUXFLOW_VAR_DIR": str(folder),
        }
        command = [sys.executable, "-m", "tests.benchmarks.telemetry.past_fleet"]
        done = subprocess.run(
            [*command, str(gpus), str(days), str(asks)],
            cwd=ROOT, env=variables, check=True, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int, default=2_000)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--asks", type=int, default=60)
    given = parser.parse_args()
    show(measure(given.gpus, given.days, given.asks), GOALS)
