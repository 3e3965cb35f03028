"""A world with a known law, to learn it from; and predictors made of random numbers."""

from __future__ import annotations

import numpy as np

from workers.prediction import analytic
from workers.prediction.bilinear import Bilinear
from workers.prediction.calibration import Calibration
from workers.prediction.features import FEATURES, Side
from workers.prediction.kernel import TERMS, Kernel
from workers.prediction.linear import Additive
from workers.prediction.model import Model
from workers.prediction.network import Ensemble, Student
from workers.prediction.observations import Observations
from workers.prediction.profiles import Profiles
from workers.prediction.trained import OUTPUTS, Trained, View

CARD = "Card A"
POINTS = 5


def profiles(n: int, seed: int = 0, **given: float) -> Profiles:
    """Ordinary ones, of one card; `given` is the same for all."""
    rng = np.random.default_rng(seed)
    util = rng.uniform(0.3, 0.9, n)
    sm = util * rng.uniform(0.4, 0.9, n)
    drawn = {
        "util": util,
        "sm": sm,
        "occupancy": sm * rng.uniform(0.3, 0.8, n),
        "bandwidth": util * rng.uniform(0.2, 0.8, n),
        "memory": rng.uniform(0.1, 0.5, n),
        "step_s": 10 ** rng.uniform(-3, -1, n),
    }
    chosen = drawn | {name: np.full(n, value) for name, value in given.items()}
    return Profiles(**chosen, gpu_model=(CARD,) * n)


def observations(services: int, jobs: int, seed: int = 0, noise: float = 0.01) -> Observations:
    """Every service with every job. Both suffer more than the analytic estimate says, by what the
    two products of memory and occupancy make of it."""
    rng = np.random.default_rng(seed)
    at = np.indices((services, jobs)).reshape(2, -1)
    online, beside = profiles(services, seed).take(at[0]), profiles(jobs, seed + 1).take(at[1])
    share = rng.choice([0.3, 0.5, 0.7], len(at[0]))
    told = analytic.estimate(analytic.load_of(online), analytic.load_of(beside), share)
    harm = 1.0 + 1.5 * online.occupancy * beside.occupancy + online.bandwidth * beside.bandwidth
    n = len(share)
    return Observations(
        online=online,
        jobs=beside,
        online_family=tuple(f"service {one}" for one in at[0]),
        job_family=tuple(f"job {one}" for one in at[1]),
        gpu_model=(CARD,) * n,
        share=share,
        throughput=told.throughput / harm + noise * rng.standard_normal(n),
        slowdown=told.slowdown * harm * np.exp(noise * rng.standard_normal(n)),
        p99_ratio=np.full(n, np.nan),
        weight=np.ones(n),
        at=np.arange(n, dtype=np.float64),
    )


def untrained(seed: int = 0, gpu_models: tuple[str, ...] = (CARD,), width: int = 4) -> Trained:
    """A predictor that has learnt nothing: what it adds is random, and small."""
    rng = np.random.default_rng(seed)
    rows, columns, outputs = len(FEATURES) + 1 + len(gpu_models), len(FEATURES), len(OUTPUTS)
    both = rows + columns

    def some(*shape: int) -> np.ndarray:
        return 0.1 * rng.standard_normal(shape)

    def narrow(*shape: int) -> np.ndarray:
        return some(*shape).astype(np.float32)

    scale = Additive(some(both), some(both, outputs), some(outputs))
    bilinear = Bilinear(
        some(both), some(both, outputs), some(rows, columns, outputs), some(outputs)
    )
    kernel = Kernel(some(outputs, TERMS), np.full((outputs, both), 0.1), some(outputs, POINTS))
    ensemble = Ensemble(
        (narrow(3, both, width), narrow(3, width, outputs)),
        (narrow(3, 1, width), narrow(3, 1, outputs)),
    )
    student = Student(
        *(narrow(rows, width), narrow(columns, width), narrow(width)),
        *(narrow(width, width), narrow(width), narrow(width, outputs), narrow(outputs)),
    )
    ends = np.full(outputs, -2.0), np.full(outputs, 2.0)
    calibration = Calibration(scale, np.ones(outputs), some(POINTS, both), 1.0, *ends)
    scaling, says = (np.zeros(both), np.ones(both)), (np.ones(outputs),) * 4
    model = Model(*scaling, bilinear, ensemble, kernel, *says, calibration)
    sides = Side.of(profiles(50)), Side.of(profiles(50, seed=1))
    return Trained("network v3", View(*sides, gpu_models), model, student)
