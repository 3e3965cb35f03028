"""What a pair of workloads would do to each other, before anybody has observed it.

Inputs are fractions of one whole GPU, measured alone: SM activity a, GPU utilisation u and
memory-bandwidth use b, of the online side (o) and of the job (j), and the job's SM share s.

    reach     r = s · min(1, s / a_j)             launches pass for s of the time, on s of the SMs
    memory    m = b_o · b_j · r                   both want the memory bus at once
    launch    l = LAUNCH · u_o · u_j · r          caches, copy engines and the clock are shared
    overlap   x = max(0, a_o + min(s, a_j) − 1)   SMs that both would fill

    offline throughput  t = r / (1 + m + l)
    online slow-down    d = (1 + m + l) / (1 − x / max(a_o, x + FLOOR))

Assumptions, ours, none of them fitted to anybody's measurements:

* MPS bounds the portion of threads that a client may use (CUDA documentation, Multi-Process
  Service, "Volta MPS execution resource provisioning"): below its need a job slows down in
  proportion. A node lets launches pass for at most the share of the time (agents/duty.py), and a
  job is taken to launch all the time, so that is lost to it as well.
* Two sides that each fill the memory bus alone get half of it each: at b_o = b_j = 1 both slow
  down by two. The product is the chance that both want it in the same moment.
* The rest that is shared costs a tenth when both sides keep the GPU busy all the time.
* An SM that both would fill is lost to the online side: the cautious reading.
* The truth lies between no contention at all, with a job that needs no turn of its own, and twice
  the contention above. That band is a stated assumption too, no measured 90 %.

It is an estimate to start from. Memory size does not slow anything down; whether it fits is the
matching's business.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.prediction import domain
from workers.prediction.predictor import Judgement, Scores
from workers.prediction.profiles import Floats, Profiles
from workers.prediction.queueing import tail

# Of either width.
Numbers: TypeAlias = NDArray[Any]

NAME: Final = "analytic estimate"
LAUNCH: Final = 0.1
FLOOR: Final = 0.05
# The end of the band: so many times the contention of the estimate.
WORST: Final = 2.0
TINY: Final = 1e-9


class Load(NamedTuple):
    """One side's use of a GPU, fractions of the whole card; arrays that broadcast."""

    sm: Numbers
    util: Numbers
    bandwidth: Numbers


class Estimate(NamedTuple):
    """`throughput` of the job as a fraction of its speed alone; `slowdown` of the online side,
    1 = none. Both have the broadcast shape of the inputs."""

    throughput: Numbers
    slowdown: Numbers


def estimate(online: Load, job: Load, share: Numbers, contention: float = 1.0) -> Estimate:
    """`contention` multiplies the memory and launch terms.

    Raises ValueError when an input is no number or negative: it cannot be estimated.
    """
    for name, column in (*_named("online", online), *_named("job", job), ("share", share)):
        if not (np.isfinite(column) & (column >= 0.0)).all():
            raise ValueError(f"{name} holds a value that is no share of a GPU")
    reach = share * _room(job, share)
    shared = online.bandwidth * job.bandwidth + LAUNCH * online.util * job.util
    friction = 1.0 + contention * reach * shared
    overlap = np.maximum(0.0, online.sm + np.minimum(share, job.sm) - 1.0)
    left = 1.0 - overlap / np.maximum(online.sm, overlap + FLOOR)
    return Estimate(reach / friction, friction / left)


def _room(job: Load, share: Numbers) -> Numbers:
    """What the share leaves of the SMs that a job needs, 1 at most."""
    return np.minimum(1.0, share / np.maximum(job.sm, TINY))


def _named(side: str, load: Load) -> list[tuple[str, Numbers]]:
    return [(f"{side}.{name}", column) for name, column in load._asdict().items()]


class Analytic:
    """The predictor of a cold start, and of every pair that nothing was learnt about."""

    name: Final = NAME

    def scores(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Scores:
        """See `Predictor`; one estimate holds for all cards, so `gpu_model` is not read."""
        rows, columns = load_of(online, np.float32), load_of(jobs, np.float32)
        down = Load(*(column[:, np.newaxis] for column in rows))
        found = estimate(down, columns, domain.shares(share).astype(np.float32)[:, np.newaxis])
        return Scores(found.throughput.astype(np.float32), found.slowdown.astype(np.float32))

    def score_pairs(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Scores:
        """See `Predictor`."""
        rows, columns = load_of(online, np.float32), load_of(jobs, np.float32)
        found = estimate(rows, columns, domain.shares(share).astype(np.float32))
        return Scores(found.throughput.astype(np.float32), found.slowdown.astype(np.float32))

    def judge(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Judgement:
        """See `Predictor`; the interval is the band that the module states."""
        rows, columns, share = load_of(online), load_of(jobs), domain.shares(share)
        likely = estimate(rows, columns, share)
        worst = estimate(rows, columns, share, WORST)
        unhindered, unslowed = _room(columns, share), np.ones(len(jobs))
        return Judgement(
            *(likely.throughput, worst.throughput, unhindered),
            *(likely.slowdown, unslowed, worst.slowdown),
            p99=tail(likely.slowdown, unslowed, worst.slowdown, rows.util),
            source=(NAME,) * len(jobs),
            flags=domain.flags(domain.impossible(online), domain.impossible(jobs)),
        )


def load_of(profiles: Profiles, dtype: type[np.floating[Any]] = np.float64) -> Load:
    """The load of workloads; where it is not known, the most that it could be."""
    sure = domain.cautious(profiles)
    return Load(*(column.astype(dtype) for column in (sure.sm, sure.util, sure.bandwidth)))
