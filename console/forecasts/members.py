"""Series of services from those of their GPUs. Pure (numpy)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from console.forecasts.packing import MISSING, Bytes, unpacked
from console.forecasts.series import Floats

# A mean over fewer of a service's GPUs than this part may be of quite other ones.
LEAST_PART: Final = 0.5


@dataclass(frozen=True)
class Members:
    """Pairs of a service's place in `services` and the id of a GPU with an instance of it."""

    services: NDArray[np.int64]
    place: NDArray[np.int64]
    gpu: NDArray[np.int64]

    @property
    def counts(self) -> NDArray[np.int64]:
        """GPUs of each service."""
        return np.bincount(self.place, minlength=len(self.services))

    def means(self, steps: Bytes) -> Floats:
        """[services, t] percent from `steps` [t, GPU ids]; NaN where too few were measured."""
        rows = [self._means(row) for row in steps]
        shape = (len(steps), len(self.services))
        return np.array(rows, np.float32).reshape(shape).T

    def _means(self, row: Bytes) -> Floats:
        mine = row[self.gpu]
        known = mine != MISSING
        count = np.bincount(self.place[known], minlength=len(self.services))
        total = np.bincount(self.place[known], unpacked(mine[known]), len(self.services))
        enough = count >= np.maximum(1, self.counts * LEAST_PART)
        return np.where(enough, total / np.maximum(count, 1), np.nan).astype(np.float32)


def members(pairs: Iterable[tuple[int, int]], width: int) -> Members:
    """Of (service, GPU id) pairs, each once; ids from `width` on have no series yet."""
    known = sorted({(service, gpu) for service, gpu in pairs if gpu < width})
    service, gpu = np.array(known, np.int64).reshape(-1, 2).T
    services, place = np.unique(service, return_inverse=True)
    return Members(services, place.astype(np.int64), gpu)
