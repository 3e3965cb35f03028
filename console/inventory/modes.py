"""The sharing mode that holds, and the facts that forbid sharing. Pure."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from agents.wire.names import SHARING_MODES, SharingMode

# From this size on a pool keeps at least one GPU as its standing control. Our choice.
SMALLEST_WITH_HOLDBACK: Final = 8
HOLDBACK_FACT: Final = "held back as the standing control"


def lower(one: str, other: str) -> SharingMode:
    """The lower of two modes holds."""
    return min(SharingMode(one), SharingMode(other), key=SHARING_MODES.index)


def holdback(gpu_ids: Sequence[int], percent: float, seed: str) -> frozenset[int]:
    """The GPUs that never share: `percent` of a pool, the same ones for the same pool and seed.

    A pool of 8 or more keeps at least one; a smaller one keeps none, where 3 % is less than half
    a GPU. 0 % keeps none.
    """
    count = round(len(gpu_ids) * percent / 100)
    if percent > 0 and len(gpu_ids) >= SMALLEST_WITH_HOLDBACK:
        count = max(count, 1)
    return frozenset(random.Random(seed).sample(sorted(gpu_ids), count))
