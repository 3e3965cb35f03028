"""What is known of a job, and where from: given, measured, of a job like it, or assumed. Pure.

A profile counts what the job does alone on a whole card, in percent of it, bytes and seconds. It is
always rounded (`quantise`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from console.workloads import quantise

# Of a job of which nothing is known: all of a card, and as much memory as the smallest cards of a
# data centre have free. Our choice.
ASSUMED_PERCENT: Final = 100.0
ASSUMED_MEMORY_BYTES: Final = 12 << 30

# What a measurement must be to be believed.
LEAST_SAMPLES: Final = 3
LONGEST_S: Final = 86_400.0
# No SM is active without a kernel; sampled apart, the two may still differ by this. Percent.
SM_ABOVE_UTIL_PERCENT: Final = 15.0


@dataclass(frozen=True, slots=True)
class Profile:
    """The figures of a job, named as the columns that they are kept in."""

    sm_percent: float
    gpu_util_percent: float
    memory_bytes: int
    memory_bandwidth_percent: float
    occupancy_percent: float | None = None
    step_s: float | None = None

    def rounded(self) -> Profile:
        occupancy, step_s = self.occupancy_percent, self.step_s
        return Profile(
            quantise.percent(self.sm_percent),
            quantise.percent(self.gpu_util_percent),
            quantise.memory(self.memory_bytes),
            quantise.percent(self.memory_bandwidth_percent),
            None if occupancy is None else quantise.percent(occupancy),
            None if step_s is None else quantise.time(step_s),
        )

    def columns(self) -> dict[str, Any]:
        return asdict(self)


def conservative(memory_bytes: int | None) -> Profile:
    """Of a job that nobody has measured; `memory_bytes` is what it asks for, None: it does not."""
    whole = ASSUMED_PERCENT
    return Profile(whole, whole, memory_bytes or ASSUMED_MEMORY_BYTES, whole).rounded()


def measured(told: Mapping[str, Any], card_bytes: int) -> Profile:
    """The profile that a node told in a `job_profiled` event, on a card of `card_bytes`.

    Raises ValueError for a measurement that cannot be. What no source of the node reads is taken
    at its upper bound: neither an SM nor the memory is busy longer than the GPU is.
    """
    samples, window_s = _number(told, "samples", 1e9), _number(told, "window_s", LONGEST_S)
    if samples is None or samples < LEAST_SAMPLES or not window_s:
        raise ValueError(f"{samples} samples in {window_s} s measure nothing")
    util = _number(told, "gpu_util_percent", 100.0)
    if not util:
        raise ValueError("a job that kept no GPU busy was not measured")
    sm, memory_bytes = _number(told, "sm_percent", 100.0), _number(told, "memory_bytes", card_bytes)
    if sm is not None and sm > util + SM_ABOVE_UTIL_PERCENT:
        raise ValueError(f"SM activity {sm:.0f} % cannot be above utilisation {util:.0f} %")
    if not memory_bytes:
        raise ValueError("a job that holds no memory was not measured")
    bandwidth = _number(told, "memory_bandwidth_percent", 100.0)
    return Profile(
        util if sm is None else sm,
        util,
        int(memory_bytes),
        util if bandwidth is None else bandwidth,
        _number(told, "occupancy_percent", 100.0),
        _number(told, "step_s", LONGEST_S) or None,
    ).rounded()


def _number(told: Mapping[str, Any], name: str, most: float) -> float | None:
    """From 0 to `most`; None where it is not told."""
    value = told.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is no number")
    if not (math.isfinite(value) and 0 <= value <= most):
        raise ValueError(f"{name} is {value:g}; it must be 0 to {most:g}")
    return float(value)


def key_of(
    owner_id: int | None, image: str, command: Sequence[str], gpu_models: Sequence[str], gpus: int
) -> str:
    """Names the jobs that are one program of one owner run alike; "" where that cannot be told."""
    if not (image or command):
        return ""
    template = [owner_id, image, list(command), sorted(gpu_models), gpus]
    return hashlib.sha256(json.dumps(template).encode()).hexdigest()[:32]
