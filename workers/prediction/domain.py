"""Profiles that cannot be, and what is made of them: the most that they could be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from workers.prediction.profiles import QUANTITIES, Floats, Profiles

# Counters of one window are read at slightly different moments. Our choice.
SLACK: Final = 0.05
# These must be known; the others may be missing.
NEEDED: Final = ("sm", "util", "memory")
WORDS: Final = {
    "sm": "SM activity",
    "util": "GPU utilisation",
    "occupancy": "occupancy",
    "bandwidth": "memory-bandwidth use",
    "memory": "memory",
    "step_s": "step time",
}


def impossible(profiles: Profiles) -> tuple[str, ...]:
    """Why each profile cannot be, or is not known well enough; "" for one that can.

    SM activity is the part of the SMs that have work, averaged over time, and utilisation the part
    of the time in which any has: the first is never above the second, nor occupancy above the
    first (DCGM field identifiers, DCGM_FI_PROF_SM_ACTIVE and DCGM_FI_PROF_SM_OCCUPANCY).
    """
    why: list[list[str]] = [[] for _ in range(len(profiles))]
    for said, wrong in _doubts(profiles):
        for at in np.flatnonzero(wrong).tolist():
            why[at].append(said)
    return tuple("; ".join(one) for one in why)


def _doubts(profiles: Profiles) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    for name in NEEDED:
        yield f"{WORDS[name]} is not known", np.isnan(getattr(profiles, name))
    for name in QUANTITIES:
        column = getattr(profiles, name)
        yield f"{WORDS[name]} is negative", column < 0.0
        if name == "step_s":
            yield f"{WORDS[name]} is without end", np.isposinf(column)
        else:
            yield f"{WORDS[name]} is above a whole card", column > 1.0 + SLACK
    for lower, upper in (("sm", "util"), ("occupancy", "sm")):
        above = getattr(profiles, lower) > getattr(profiles, upper) + SLACK
        yield f"{WORDS[lower]} is above {WORDS[upper]}", above


def cautious(profiles: Profiles) -> Profiles:
    """The same workloads with the most that they could be where that is not known."""
    sm = _bounded(profiles.sm, _bounded(profiles.util, np.ones(len(profiles))))
    util = np.maximum(_bounded(profiles.util, np.ones(len(profiles))), sm)
    bandwidth = _bounded(profiles.bandwidth, util)
    return replace(profiles, sm=sm, util=util, bandwidth=bandwidth)


def _bounded(column: Floats, most: Floats) -> Floats:
    known = np.where(np.isnan(column) | (column < 0.0), most, column)
    bounded: Floats = np.minimum(known, 1.0)
    return bounded


def shares(share: Floats) -> Floats:
    """Raises ValueError unless all are shares of a GPU: they are decided, not measured."""
    if not ((share >= 0.0) & (share <= 1.0)).all():
        raise ValueError("an SM share is not between 0 and 1: give it as a fraction of the GPU")
    return share


def flags(online: tuple[str, ...], jobs: tuple[str, ...]) -> tuple[str, ...]:
    """What is wrong with either side, pair by pair; "" where nothing is."""
    pairs = zip(online, jobs, strict=True)
    named = ((("online", row), ("job", column)) for row, column in pairs)
    return tuple("; ".join(f"{side}: {why}" for side, why in pair if why) for pair in named)
