"""Profiles that no workload has, shown to a predictor: each must be flagged."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from tests.workers.prediction.made import CARD, profiles, untrained

EACH: Final = 100
HOSTILE: Final = (
    *({name: math.nan} for name in ("sm", "util", "memory")),
    *({name: -0.2} for name in ("sm", "util", "occupancy", "bandwidth", "memory", "step_s")),
    *({name: 10.0} for name in ("sm", "util", "occupancy", "bandwidth", "memory")),
    {"step_s": math.inf},
    {"step_s": 1e9},
    {"sm": 0.9, "util": 0.1},
    {"occupancy": 0.9, "sm": 0.1},
)


def flagged() -> Mapping[str, int]:
    """How many were shown, on either side, and how many of them passed for ordinary."""
    predictor, share, cards = untrained(), np.full(EACH, 0.5), (CARD,) * EACH
    missed = 0
    for given in HOSTILE:
        strange, ordinary = profiles(EACH, 2, **given), profiles(EACH, 3)
        for sides in ((strange, ordinary), (ordinary, strange)):
            missed += predictor.judge(*sides, share, cards).flags.count("")
    return {"hostile_profiles": 2 * EACH * len(HOSTILE), "hostile_missed": missed}
