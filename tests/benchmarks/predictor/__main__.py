"""`make bench-predictor`: what the product's learner makes of public measurements.

Reads the folder `MUXFLOW_DATA`. Nothing that is fitted here is shipped.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

from tests.benchmarks.predictor import halves, latency, measuring, pairing, strangers
from tests.benchmarks.predictor.measuring import FOLDS
from tests.benchmarks.report import Goal, show

GPUS: Final = ("k80", "p100", "v100")
MOST_MAE: Final = {
    "lucid": 0.047,
    "gavel_k80": 0.023,
    "gavel_p100": 0.024,
    "gavel_v100": 0.071,
    "sm_share": 0.027,
}
FAMILIES: Final = ("lucid", *(f"gavel_{gpu}" for gpu in GPUS))
# Two cores are what it is made for; each trains with one thread.
PROCESSES: Final = 2
THREADS: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def goals() -> list[Goal]:
    held_out = [
        goal
        for name, most in MOST_MAE.items()
        for goal in (
            Goal(f"{name}.mae", f"{name}: error on pairs held out", most=most),
            Goal(f"{name}.coverage_90", f"{name}: truths in their interval", 0.95, 0.85),
            Goal(f"{name}.width_over_mae", f"{name}: interval over the error", most=4),
        )
    ]
    families = [
        Goal(f"{name}_families.mae_over_mean", f"{name}: families left out, over the mean", most=1)
        for name in FAMILIES
    ]
    return [
        *held_out,
        *families,
        Goal("lucid_families.mae_over_additive", "lucid: likewise, over an additive model", most=1),
        Goal("matching_gain", "lucid: matching's part of the oracle's gain", least=0.77),
        Goal("hostile_missed", "hostile profiles that passed for ordinary", most=0, least=0),
        Goal("p99_law_error", "law for latency, closed loop: mean error", most=0.05),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=4, help="of five splits (4)")
    chosen = parser.parse_args()
    if "MUXFLOW_DATA" not in os.environ:
        sys.exit("bench-predictor: set MUXFLOW_DATA to the folder of the public measurements.")
    if find_spec("torch") is None:
        sys.exit("bench-predictor: PyTorch is not installed here: run `make ml`.")
    began = time.monotonic()
    os.environ.update(dict.fromkeys(THREADS, "1"))
    found = measure(FOLDS * chosen.rounds)
    show({**found, "splits": FOLDS * chosen.rounds, "took_s": time.monotonic() - began}, goals())


def measure(splits: int) -> Mapping[str, Any]:
    folder = Path(os.environ["MUXFLOW_DATA"])
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        held = {
            name: [pool.submit(halves.split, name, number) for number in range(splits)]
            for name in MOST_MAE
        }
        left = {
            name: [
                pool.submit(halves.family, name, family)
                for family in measuring.families(halves.table(name))
            ]
            for name in FAMILIES
        }
        split = {name: [one.result() for one in many] for name, many in held.items()}
        family = {name: [one.result() for one in many] for name, many in left.items()}
    return {
        **{name: measuring.figures(halves.table(name), many) for name, many in split.items()},
        **{
            f"{name}_families": measuring.pooled(halves.table(name), many)
            for name, many in family.items()
        },
        **pairing.gains(halves.table("lucid"), split["lucid"]),
        **strangers.flagged(),
        **latency.law(folder),
    }


if __name__ == "__main__":
    main()
