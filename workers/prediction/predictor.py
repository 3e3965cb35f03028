"""What the matching asks of whatever predicts the interference of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.prediction.profiles import Floats, Profiles
from workers.prediction.queueing import Tail

Floats32: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class Scores:
    """Point estimates for every row with every column: the job's `throughput` as a fraction of
    its speed alone, and the `slowdown` of the online side, 1 = none. Both float32 [rows, columns];
    of pairs [n].
    """

    throughput: Floats32
    slowdown: Floats32


@dataclass(frozen=True)
class Judgement:
    """Pairs one by one, each figure with the ends of its 90 % interval; float64 [n].

    `p99` is the online side's p99 latency over the one alone: learnt, or by the law of `queueing`.
    `source` names what predicted the pair; `flags` says why it is out of the range in which the
    network is trusted (empty: it is in range).
    """

    throughput: Floats
    throughput_low: Floats
    throughput_high: Floats
    slowdown: Floats
    slowdown_low: Floats
    slowdown_high: Floats
    p99: Tail
    source: tuple[str, ...]
    flags: tuple[str, ...]


class Predictor(Protocol):
    """Predicts what an online side and a job would do to each other.

    `share` is the SM share of the job, 0 to 1, and `gpu_model` the card that both would be on.
    A share that is none raises ValueError. Profiles never raise: one that cannot be, or that is
    unlike all that was learnt from, is predicted by the analytic estimate, cautiously.
    """

    @property
    def name(self) -> str: ...

    def scores(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Scores:
        """Every online side r with every job c; `share` and `gpu_model` go with the online side."""
        ...

    def score_pairs(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Scores:
        """As `scores`, of pair n alone: online side n with job n, at share n on the card n."""
        ...

    def judge(
        self, online: Profiles, jobs: Profiles, share: Floats, gpu_model: tuple[str, ...]
    ) -> Judgement:
        """Pair n is online side n with job n, at share n on the card n."""
        ...
