"""The sharing mode that holds, and the choice of GPUs that never share. Pure."""

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


def holdback_count(gpus: int, percent: float) -> int:
    """How many of `gpus` never share: `percent`, and at least one of 8 or more unless it is 0."""
    count = round(gpus * percent / 100)
    return max(count, 1) if percent > 0 and gpus >= SMALLEST_WITH_HOLDBACK else count


def choose(gpu_ids: Sequence[int], count: int, seed: str) -> frozenset[int]:
    """The same `count` GPUs for the same pool and seed, with no eye to how they perform."""
    ids = sorted(gpu_ids)
    return frozenset(random.Random(seed).sample(ids, min(max(count, 0), len(ids))))
