"""What is known of workloads from running them alone.

One column a quantity, one entry a workload. A value that nobody measured is NaN, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

QUANTITIES: Final = ("sm", "util", "occupancy", "bandwidth", "memory", "step_s")


@dataclass(frozen=True)
class Profiles:
    """`sm` activity, GPU `util`isation, `occupancy` and memory-`bandwidth` use as fractions of
    one whole card, `memory` as a fraction of that of its card, and the seconds of one step or one
    request; float64, each of shape [n]. `gpu_model` is the card that it was measured on.
    """

    sm: Floats
    util: Floats
    occupancy: Floats
    bandwidth: Floats
    memory: Floats
    step_s: Floats
    gpu_model: tuple[str, ...]

    def __post_init__(self) -> None:
        """Raises ValueError when the columns are not of one length."""
        for name in QUANTITIES:
            if getattr(self, name).shape != (len(self),):
                raise ValueError(f"{name} has another length than gpu_model, which has {len(self)}")

    def __len__(self) -> int:
        return len(self.gpu_model)

    def take(self, indices: Sequence[int] | Ints) -> Profiles:
        """The workloads of these positions, which may repeat."""
        at = np.asarray(indices, np.int64)
        columns = {name: getattr(self, name)[at] for name in QUANTITIES}
        return Profiles(**columns, gpu_model=tuple(self.gpu_model[one] for one in at.tolist()))
