"""What the round before said of running jobs, which holds where nothing of it has changed. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from workers.matching.columns import Bools, Floats, Ints

Objects: TypeAlias = NDArray[Any]  # of Python's own kind


@dataclass(frozen=True)
class Hosted:
    """Running jobs on their GPUs, as the predictor sees them: `load` and `profile` by numbers that
    hold for all rounds, and what it says of each, `throughput` and `slowdown` once more as columns.

    `again`: it says what it said in the round before.
    """

    load: Ints
    profile: Ints
    share_percent: Floats
    judged: Objects
    throughput: Floats
    slowdown: Floats
    again: Bools


@dataclass(frozen=True)
class Said:
    """Of running jobs: the `verdict` on each that `stays`, and what that hangs on besides the
    prediction: the id of the GPU, the worth of the pair, and why it stays."""

    gpu: Ints
    worth: Ints
    why: Objects
    stays: Bools
    verdict: Objects


class KeptGuests:
    """Of the round before alone: the jobs are found by where they were among its jobs."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        self._round = self._first = -1
        self._said: tuple[Hosted, Said] | None = None

    def keep(self, round_: int, first: int, hosted: Hosted, said: Said) -> None:
        """`first` is where the running jobs begin among the jobs of the round."""
        self._round, self._first, self._said = round_, first, (hosted, said)

    def recall(self, round_: int, before: Ints) -> tuple[Ints, Hosted, Said] | None:
        """Which of those that were hosted each job is, -1 for none; None: nothing is known.

        `before` is where the jobs were in the round before `round_`.
        """
        if self._said is None or self._round != round_ - 1 or not len(self._said[0].load):
            return None
        return np.maximum(before - self._first, -1), *self._said
