"""How well a predictor foretold what was then observed."""

from __future__ import annotations

import io

import numpy as np

from console.predictor.watching import Error
from workers.prediction import artifact
from workers.prediction.analytic import Analytic
from workers.prediction.observations import read_csv
from workers.prediction.predictor import Predictor


def measure(data: bytes | None, csv: str) -> Error:
    """Of the predictor in the file `data` (None: the analytic estimate), on observations as CSV.

    Raises ValueError when either is damaged.
    """
    predictor: Predictor = Analytic() if data is None else artifact.load(data)
    seen = read_csv(io.StringIO(csv))
    told = predictor.judge(seen.online, seen.jobs, seen.share, seen.gpu_model)
    return Error(
        mae=float(np.abs(told.throughput - seen.throughput).mean()),
        out_of_range_share=sum(bool(flags) for flags in told.flags) / len(seen),
    )
