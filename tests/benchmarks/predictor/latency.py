"""The lower end of the law for p99, held against measured latencies.

The solo table has latency and throughput of inference services at several SM shares, in a closed
loop: the next request is sent when the last has been answered, so that none waits. There the law
says that latency grows by the slow-down of the service alone.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from workers.prediction.queueing import tail


def law(folder: Path) -> Mapping[str, float]:
    """The law's mean error, of the latency at a share over that at the whole card."""
    with (folder / "interference" / "mps_sm_share_solo.csv").open(newline="") as lines:
        rows = list(csv.DictReader(lines))
    whole = {(row["model"], row["batch"]): row for row in rows if row["sm_percent"] == "100"}
    pairs = [(row, whole[row["model"], row["batch"]]) for row in rows]
    seen = np.array([float(row["latency"]) / float(alone["latency"]) for row, alone in pairs])
    slower = [float(alone["throughput"]) / float(row["throughput"]) for row, alone in pairs]
    slowdown, idle = np.array(slower), np.zeros(len(pairs))
    told = tail(slowdown, slowdown, slowdown, idle).ratio
    return {
        "p99_law_rows": float(len(rows)),
        "p99_law_error": float(np.abs(told / seen - 1.0).mean()),
    }
