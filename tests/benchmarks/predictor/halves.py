"""One table with a part of it held out: what a process of the benchmark works on."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from tests.benchmarks.predictor import measuring, tables
from tests.benchmarks.predictor.measuring import Held
from tests.benchmarks.predictor.tables import Measured


def split(name: str, number: int) -> Held:
    return measuring.split(table(name), number)


def family(name: str, family: str) -> Held:
    return measuring.family(table(name), family)


@cache
def table(name: str) -> Measured:
    folder = Path(os.environ["MUXFLOW_DATA"])
    if name == "lucid":
        return tables.lucid(folder)
    if name == "sm_share":
        return tables.sm_share(folder)
    return tables.gavel(folder, name.removeprefix("gavel_"))
