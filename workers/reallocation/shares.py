"""The SM share of an offline client: what the online side leaves, in steps. Pure.

The share is fixed when a client starts; duty, decided on the node at every sample, follows the
load in between. So the share answers for the time to come (workers/reallocation/forecast.py) and
is changed with hysteresis. All values are percent of one GPU.

    complement    s = min(MOST, ⌊(100 − peak − reserve) / STEP⌋ · STEP), none below LEAST
    on the card   the whole TPCs in s (workers/reallocation/hardware.py)

A pair may do with less: of a few shares up to the complement the one that is worth most in the
policy's own weights is found, then the one that slows online least among those that lose at most
`HARDLY` of that worth; it is taken when it spares online at least `PAYS` of its speed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from console.scheduling.limits import Limits
from workers.prediction.predictor import Judgement, Predictor
from workers.prediction.profiles import Floats, Ints, Profiles
from workers.reallocation.hardware import whole

# A GPU has 40 to 140 SMs: a finer step would round to the same number of them. Our choice.
STEP: Final = 5.0
# Below this a client spends its time waiting for its turn. Our choice.
LEAST: Final = 10.0
# An online side that sleeps may wake at any moment: it keeps the rest. Our choice.
MOST: Final = 90.0
# A smaller change is noise of the load. Our choice.
HYSTERESIS: Final = 10.0
# A share is asked about whole, at the job's own need, and at these parts of it. Our choice.
PARTS: Final = (0.75, 0.5)
# What "hardly" and "it pays" mean: parts of a pair's worth and of online's speed. Our choice.
HARDLY: Final = 0.02
PAYS: Final = 0.01

# What pairs are worth to the policy at these throughputs and slowdowns, each float64 [levels, n];
# what it forbids is worth 0 or less.
Worth: TypeAlias = Callable[[Floats, Floats], Floats]


@dataclass(frozen=True)
class Choice:
    """`share_percent` [n] of each pair, and what the predictor says of it at that share."""

    share_percent: Floats
    judgement: Judgement


def complement(peak: Floats, reserve: Floats) -> Floats:
    """The share that complements an online peak; 0 where less than `LEAST` is left."""
    left = np.floor((100.0 - peak - reserve) / STEP) * STEP
    return np.where(left < LEAST, 0.0, np.minimum(left, MOST))


def best(
    predictor: Predictor,
    online: Profiles,
    jobs: Profiles,
    most_share: Floats,
    gpu_model: tuple[str, ...],
    worth: Worth,
) -> Choice:
    """The share of each pair n: online side n with job n on the card n, at most `most_share[n]`.

    `most_share` is percent, as `complement` gives it, and at least `LEAST`. Four times the pairs
    are scored, only what is chosen is judged. Raises ValueError for a share below `LEAST`.
    """
    if (most_share < LEAST).any():
        raise ValueError(f"no share can be chosen where online leaves less than {LEAST:g} %")
    levels = _levels(most_share, jobs.sm * 100.0, gpu_model)
    count, pairs = levels.shape
    every = np.tile(np.arange(pairs), count)
    scores = predictor.score_pairs(
        online.take(every), jobs.take(every), levels.ravel() / 100.0, gpu_model * count
    )
    throughput = scores.throughput.astype(np.float64).reshape(count, pairs)
    slowdown = scores.slowdown.astype(np.float64).reshape(count, pairs)
    level = _level(worth(throughput, slowdown), slowdown)
    share = levels[level, np.arange(pairs)]
    return Choice(share, predictor.judge(online, jobs, share / 100.0, gpu_model))


def _levels(most: Floats, need: Floats, gpu_model: tuple[str, ...]) -> Floats:
    """[4, n], the whole complement first; a need that nobody measured is the complement."""
    parts = [most * part for part in PARTS]
    wanted = np.stack([most, np.fmin(np.ceil(need / STEP) * STEP, most), *parts])
    steps = np.floor(wanted / STEP + 1e-9) * STEP
    return np.stack([whole(np.clip(row, LEAST, most), gpu_model) for row in steps])


def _level(value: Floats, slowdown: Floats) -> Ints:
    """The level of each pair, from both figures of every level; of equal ones the first."""
    pairs = np.arange(value.shape[1])
    first = np.argmax(value, axis=0)
    highest = value[first, pairs]
    good = value >= highest - HARDLY * np.abs(highest)
    kind = np.argmin(np.where(good, slowdown, np.inf), axis=0)
    spared = 1.0 - slowdown[kind, pairs] / slowdown[first, pairs]
    level: Ints = np.where(spared >= PAYS, kind, first)
    return level


def target(limits: Limits, share_percent: float) -> Limits:
    """The limits that follow a new share, or `limits` as they are when the change is noise.

    A share above the new one is met at once by a duty cap; the share itself follows at the next
    start.
    """
    desired = _hold(limits.desired, max(share_percent, LEAST))
    return Limits(limits.started, desired, _duty_cap(limits.started, desired))


def _hold(old: float, new: float) -> float:
    return new if abs(new - old) >= HYSTERESIS else old


def _duty_cap(started: float | None, desired: float) -> float | None:
    if started is None or desired >= started:
        return None
    return max(LEAST, math.floor(100.0 * desired / started / STEP) * STEP)
