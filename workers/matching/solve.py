"""Maximum-weight assignment of rows of GPUs to classes of jobs, exactly. Pure.

    max Σ worth[r, c] · x[r, c]   with Σ_c x[r, c] ≤ rows[r],  Σ_r x[r, c] ≤ capacity[c],  x ≥ 0

Small problems go to the Hungarian method on single GPUs and jobs. Its time grows with the cube of
their number on lifelike weights, so larger ones are solved on rows and classes (`paths`). Either
way `certificate.bound` checks the result without trusting it. The only module that imports scipy.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from workers.matching import paths

Ints: TypeAlias = NDArray[np.int64]

# GPUs × jobs up to which the Hungarian method takes less than a tenth of a second.
DENSE_CELLS: Final = 250_000


def assign(worth: Ints, rows: Ints, capacity: Ints) -> Ints:
    """`x` of shape [rows, classes]; a pair of worth 0 or less is never made."""
    if not (worth > 0).any():
        return np.zeros(worth.shape, np.int64)
    if int(rows.sum()) * int(capacity.sum()) <= DENSE_CELLS:
        return hungarian(worth, rows, capacity)
    return paths.assign(worth, rows, capacity)


def hungarian(worth: Ints, rows: Ints, capacity: Ints) -> Ints:
    """Every GPU and every job by itself, then counted again."""
    row_of = np.repeat(np.arange(len(rows)), rows)
    class_of = np.repeat(np.arange(len(capacity)), capacity)
    gain = np.maximum(worth, 0)[row_of][:, class_of]
    gpus, jobs = linear_sum_assignment(gain, maximize=True)
    made = gain[gpus, jobs] > 0
    x = np.zeros(worth.shape, np.int64)
    np.add.at(x, (row_of[gpus[made]], class_of[jobs[made]]), 1)
    return x
