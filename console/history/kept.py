"""What is kept of a GPU, and how finely: each value becomes a whole number of steps. Pure (numpy).

Codes are int16. A linear scale has a step; a logarithmic one has a ratio, for values that span
many powers of ten. Missing is a code of its own and comes back as nan, never as 0; only a measured
0 comes back as 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from agents.wire.names import SIGNALS, Signal
from console.telemetry.latest import COLUMN, Floats

Codes: TypeAlias = npt.NDArray[np.int16]

MISSING: Final = -32_768
_MOST: Final = 32_767
_ZERO: Final = -1  # on a logarithmic scale
_MIB: Final = 1 << 20


@dataclass(frozen=True)
class Linear:
    """The value is `code · step`: off by half a step at most."""

    step: float


@dataclass(frozen=True)
class Logarithmic:
    """The value is `least · (1 + ratio)^code`: off by half the ratio at most. What is above 0 and
    below `least` counts as `least`."""

    least: float
    ratio: float


Scale: TypeAlias = Linear | Logarithmic

_PERCENT: Final = Linear(1.0)
SCALES: Final[Mapping[str, Scale]] = {
    Signal.GPU_UTIL.value: _PERCENT,
    Signal.SM_ACTIVITY.value: Linear(0.5),
    Signal.SM_OCCUPANCY.value: _PERCENT,
    Signal.MEMORY_BANDWIDTH.value: _PERCENT,
    Signal.SM_CLOCK.value: Linear(15.0),  # NVIDIA's clocks move in steps of 15 MHz
    Signal.MEMORY.value: Linear(32.0 * _MIB),
    Signal.PCIE_RX.value: Logarithmic(1e3, 0.05),
    Signal.TEMPERATURE.value: Linear(1.0),
    Signal.POWER.value: Logarithmic(0.1, 0.02),
    Signal.XID.value: Linear(1.0),
    Signal.ONLINE_P99.value: Logarithmic(1e-3, 0.01),
    Signal.ONLINE_QPS.value: Logarithmic(1e-3, 0.02),
    "sm_online_percent": _PERCENT,
    "sm_offline_percent": _PERCENT,
    "duty_percent": _PERCENT,
    "headroom_percent": _PERCENT,
    "online_memory_bytes": Linear(32.0 * _MIB),
    "offline_memory_bytes": Linear(32.0 * _MIB),
    "online_processes": Linear(1.0),
    "offline_processes": Linear(1.0),
    "state": Linear(1.0),  # index in names.GPU_STATES
    "by_receipt": Linear(1.0),  # 1: its second is that of its receipt, for the node's clock is off
}
NAMES: Final = tuple(SCALES)
AT: Final = {name: index for index, name in enumerate(NAMES)}
# The first of NAMES are the signals, in the wire's own order: for these the worst is kept as well.
WORST: Final = len(SIGNALS)
# Of a mean nothing sensible could be said: what counts is the highest of the time.
HIGHEST: Final = frozenset({Signal.XID.value, "state", "by_receipt"})
_FROM_GRID: Final = [COLUMN[name] for name in NAMES if name in COLUMN]


def taken(
    values: Floats, state: npt.NDArray[np.uint8], by_receipt: npt.NDArray[np.bool_]
) -> Floats:
    """The columns that are kept, in the order of NAMES: [GPUs, NAMES] of [GPUs, COLUMNS]."""
    others = (state.astype(np.float32), by_receipt.astype(np.float32))
    return np.column_stack([values[:, _FROM_GRID], *others])


def encode(values: Floats, names: Sequence[str] = NAMES) -> Codes:
    """[n, names] of values as codes."""
    codes = np.empty(values.shape, np.int16)
    for column, name in enumerate(names):
        codes[:, column] = encode_one(values[:, column], SCALES[name])
    return codes


def encode_one(values: npt.NDArray[np.floating], scale: Scale) -> Codes:
    match scale:
        case Linear(step):
            steps = np.rint(values / step)
            # A trace of something is not nothing.
            steps = np.where((steps == 0) & (values > 0), 1, steps)
        case Logarithmic(least, ratio):
            known = np.where(values > 0, np.maximum(values, least), least)
            steps = np.rint(np.log(known / least) / math.log1p(ratio))
            steps = np.where(values <= 0, _ZERO, steps)
    steps = np.where(np.isnan(values), MISSING, np.clip(steps, MISSING + 1, _MOST))
    return steps.astype(np.int16)


def decode_one(codes: npt.NDArray[np.integer], scale: Scale) -> npt.NDArray[np.float64]:
    """The values, nan where missing."""
    match scale:
        case Linear(step):
            values = codes * step
        case Logarithmic(least, ratio):
            values = least * np.exp(np.maximum(codes, 0) * math.log1p(ratio))
            values = np.where(codes < 0, 0.0, values)
    return np.where(codes == MISSING, np.nan, values)
