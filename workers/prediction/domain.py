"""Profiles that cannot be, and what is made of them: the most that they could be."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

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
    for name in QUANTITIES:
        for at, said in _unbelievable(name, getattr(profiles, name)):
            why[at].append(said)
    for lower, upper in (("sm", "util"), ("occupancy", "sm")):
        above = getattr(profiles, lower) > getattr(profiles, upper) + SLACK
        for at in np.flatnonzero(above):
            why[at].append(f"{WORDS[lower]} is above {WORDS[upper]}")
    return tuple("; ".join(one) for one in why)


def _unbelievable(name: str, column: Floats) -> list[tuple[int, str]]:
    most = np.inf if name == "step_s" else 1.0 + SLACK
    found = [(at, "is not known") for at in np.flatnonzero(np.isnan(column)) if name in NEEDED]
    found += [(at, "is negative") for at in np.flatnonzero(column < 0.0)]
    found += [(at, f"is {column[at]:.4g} of a card") for at in np.flatnonzero(column > most)]
    found += [(at, "is endless") for at in np.flatnonzero(np.isposinf(column)) if most == np.inf]
    return [(int(at), f"{WORDS[name]} {said}") for at, said in found]


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
