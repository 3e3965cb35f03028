"""A network as large as a trained one that has learnt nothing: it costs what that costs, and says
about what the analytic estimate says.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tests.benchmarks.matching.cluster import MODELS
from workers.matching.columns import model_of
from workers.prediction.bilinear import Bilinear
from workers.prediction.calibration import Calibration
from workers.prediction.features import FEATURES, Side
from workers.prediction.kernel import TERMS, Kernel
from workers.prediction.linear import Additive
from workers.prediction.model import Model
from workers.prediction.network import Ensemble, Student
from workers.prediction.profiles import Profiles
from workers.prediction.trained import OUTPUTS, Trained, View

MEMBERS, HIDDEN, LAYERS = 6, 48, 3
FIRST, SECOND = 32, 16
REFERENCES = 500
SMALL = 0.01


def untrained(seed: int = 1) -> Trained:
    rng = np.random.default_rng(seed)
    served = tuple(model_of(name, True) for name, _, _ in MODELS)
    rows, columns, outputs = len(FEATURES) + 1 + len(served), len(FEATURES), len(OUTPUTS)
    both = rows + columns

    def some(*shape: int) -> Any:
        return SMALL * rng.standard_normal(shape)

    def narrow(*shape: int) -> Any:
        return some(*shape).astype(np.float32)

    scale = Additive(some(both), some(both, outputs), some(outputs))
    bilinear = Bilinear(
        some(both), some(both, outputs), some(rows, columns, outputs), some(outputs)
    )
    kernel = Kernel(some(outputs, TERMS), np.ones((outputs, both)), some(outputs, REFERENCES))
    sizes = [both, *(HIDDEN,) * LAYERS, outputs]
    ensemble = Ensemble(
        tuple(narrow(MEMBERS, *pair) for pair in pairwise(sizes)),
        tuple(narrow(MEMBERS, 1, size) for size in sizes[1:]),
    )
    student = Student(
        *(narrow(rows, FIRST), narrow(columns, FIRST), narrow(FIRST)),
        *(narrow(FIRST, SECOND), narrow(SECOND), narrow(SECOND, outputs), narrow(outputs)),
    )
    ends, ones = (np.full(outputs, -2.0), np.full(outputs, 2.0)), np.ones(outputs)
    calibration = Calibration(scale, ones, some(REFERENCES, both), 1.0, *ends)
    scaling = np.zeros(both), np.ones(both)
    model = Model(*scaling, bilinear, ensemble, kernel, *(ones,) * 4, calibration)
    sides = Side.of(_profiles(rng)), Side.of(_profiles(rng))
    return Trained("untrained network", View(*sides, served), model, student)


def _profiles(rng: np.random.Generator, n: int = 4_000) -> Profiles:
    """Of all kinds, so that no workload is unlike what it has seen."""
    sm, util, occupancy, bandwidth, memory = rng.uniform(0.0, 1.0, (5, n))
    step_s = 10 ** rng.uniform(-4.0, 1.0, n)
    return Profiles(sm, util, occupancy, bandwidth, memory, step_s, (MODELS[0][0],) * n)
