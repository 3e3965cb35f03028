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

It is an estimate to start from. Memory size does not slow anything down; whether it fits is the
matching's business.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

NAME: Final = "analytic estimate"
LAUNCH: Final = 0.1
FLOOR: Final = 0.05


class Load(NamedTuple):
    """One side's use of a GPU, fractions of the whole card; arrays that broadcast."""

    sm: Floats
    util: Floats
    bandwidth: Floats


class Estimate(NamedTuple):
    """`throughput` of the job as a fraction of its speed alone; `slowdown` of the online side,
    1 = none. Both have the broadcast shape of the inputs."""

    throughput: Floats
    slowdown: Floats


def estimate(online: Load, job: Load, share: Floats) -> Estimate:
    """Raises ValueError when an input is no number or negative: it cannot be estimated."""
    for name, column in (*_named("online", online), *_named("job", job), ("share", share)):
        if not (np.isfinite(column) & (column >= 0.0)).all():
            raise ValueError(f"{name} holds a value that is no share of a GPU")
    reach = _reach(job, share)
    memory = online.bandwidth * job.bandwidth
    friction = 1.0 + reach * (memory + LAUNCH * online.util * job.util)
    overlap = np.maximum(0.0, online.sm + np.minimum(share, job.sm) - 1.0)
    left = 1.0 - overlap / np.maximum(online.sm, overlap + FLOOR)
    return Estimate(reach / friction, friction / left)


def _reach(job: Load, share: Floats) -> Floats:
    """What the share leaves of a job's speed, before anybody is in its way."""
    reach: Floats = share * np.minimum(1.0, share / np.maximum(job.sm, 1e-9))
    return reach


def _named(side: str, load: Load) -> list[tuple[str, Floats]]:
    return [(f"{side}.{name}", column) for name, column in load._asdict().items()]
