"""Hidden effects: how a pair of workloads differs from what the law says of its two profiles.

Real pairs share caches, codecs and luck. Nothing outside the simulated fleet may look here: a
predictor has to learn them from what it observes.
"""

from __future__ import annotations

import re
import zlib
from typing import Final

import numpy as np

_SPREAD: Final = 0.3
_LEAST, _MOST = 0.5, 2.0


def family(job_name: str) -> str:
    """`resnet-31` is one of the `resnet` jobs."""
    return re.sub(r"-\d+$", "", job_name)


def pair_effect(seed: int, service: str, job_name: str) -> tuple[float, float]:
    """Factors on the slow-down of the online and of the offline side: the same for all jobs of a
    family beside a service, 1 beside none."""
    if not service:
        return 1.0, 1.0
    key = zlib.crc32(f"{service}|{family(job_name)}".encode())
    drawn = np.random.default_rng([seed, key]).normal(0.0, _SPREAD, 2)
    online, offline = np.clip(np.exp(drawn), _LEAST, _MOST)
    return float(online), float(offline)
