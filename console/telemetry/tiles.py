"""One tile a node, for maps seen from afar: its worst GPU, and how many are how. Pure (numpy).

A tile has the fields of a cell, so that it is drawn by the same rules. A value is that of the
worst live GPU where one end is a danger, else the mean of the live ones; GPUs without a value
have no part in it, and a node without any has none: missing is never 0 here either. When no GPU
of a node is live, the look says why, and stale values stand in for the live ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
import numpy.typing as npt

from agents.wire.names import GPU_STATES, GpuState
from console.telemetry.latest import MISSING, Bytes, Field, Flag, Flags, Look, Rows

_LIVE: Final = (Look.OK, Look.ZERO, Look.IDLE)
# From the least to the most alarming. HARDWARE stands for DISABLED by the hardware.
_SEVERITY: Final = (
    GpuState.HEALTHY,
    GpuState.INIT,
    GpuState.DISABLED,
    GpuState.UNHEALTHY,
    GpuState.COOLDOWN,
    GpuState.GUARDED,
    None,  # hardware suspect
    GpuState.OVERLIMIT,
)
_RANK: Final = np.array([_SEVERITY.index(state) for state in GPU_STATES], np.uint8)
_SUSPECT: Final = _SEVERITY.index(None)
_STATE_OF_RANK: Final = np.array(
    [GPU_STATES.index(state or GpuState.DISABLED) for state in _SEVERITY], np.uint8
)
_LEAST: Final = (Field.HEADROOM, Field.DUTY)
_MOST: Final = (Field.MEMORY, Field.TEMPERATURE, Field.POWER, Field.P99)
_MEAN: Final = (Field.SM_ACTIVITY, Field.GPU_UTIL, Field.OFFLINE_SHARE)


class Count(IntEnum):
    """The columns that follow `latest.Field` in a tile: GPUs of the node, at most 255.

    Those of a state are live (or measure nothing but are heard), as in the fleet's summary.
    """

    INIT = 12
    HEALTHY = 13
    UNHEALTHY = 14
    GUARDED = 15
    OVERLIMIT = 16
    COOLDOWN = 17
    DISABLED = 18
    QUARANTINED = 19
    IDLE = 20
    STALE = 21
    UNREACHABLE = 22
    UNSUPPORTED = 23
    GUESTS = 24


COLUMNS: Final = len(Field) + len(Count)
_LOOKS: Final = (Look.IDLE, Look.STALE, Look.UNREACHABLE, Look.UNSUPPORTED)


@dataclass(frozen=True)
class Nodes:
    """Which rows of GPUs make a node: `order` brings a node's rows together, `starts` says where
    each begins in it. Every node has a GPU at least."""

    order: Rows
    starts: Rows

    @property
    def count(self) -> int:
        return len(self.starts)


def nodes_of(numbers: npt.NDArray[np.int32], count: int) -> Nodes:
    """`numbers` names the node of each row, from 0 to `count` - 1."""
    order = np.argsort(numbers, kind="stable")
    return Nodes(order, np.searchsorted(numbers[order], np.arange(count)))


def tiles(cells: Bytes, nodes: Nodes) -> Bytes:
    """uint8 [COLUMNS, nodes] of the cells uint8 [fields, GPUs] that browsers are shown."""
    if not nodes.count:
        return np.zeros((COLUMNS, 0), np.uint8)
    at = cells[:, nodes.order]
    out = np.empty((COLUMNS, nodes.count), np.uint8)
    look, live = at[Field.LOOK], np.isin(at[Field.LOOK], _LIVE)
    out[Field.LOOK] = _looks(look, nodes)
    _put_states(out, at, live, nodes)
    _put_counts(out, at, live, nodes)
    stale = (look == Look.STALE) & np.repeat(out[Field.LOOK] == Look.STALE, _sizes(look, nodes))
    _put_values(out, at, live | stale, nodes)
    return out


def _sizes(look: Bytes, nodes: Nodes) -> Rows:
    return np.diff(nodes.starts, append=len(look))


def _looks(look: Bytes, nodes: Nodes) -> Bytes:
    """A node is alive while one GPU is; else the most serious of the reasons why none is."""
    out = np.full(nodes.count, Look.UNSUPPORTED, np.uint8)
    for told in (Look.STALE, Look.UNREACHABLE, Look.IDLE, Look.OK):
        same = (Look.OK, Look.ZERO) if told is Look.OK else (told,)
        out[np.logical_or.reduceat(np.isin(look, same), nodes.starts)] = told
    return out


def _put_states(out: Bytes, at: Bytes, live: Flags, nodes: Nodes) -> None:
    flags = np.where(live, at[Field.FLAGS], 0).astype(np.uint8)
    rank = _RANK[at[Field.STATE]]
    rank[flags & Flag.HARDWARE > 0] = _SUSPECT
    worst = np.maximum.reduceat(np.where(live, rank, 0), nodes.starts)
    joined = np.bitwise_or.reduceat(flags & ~np.uint8(Flag.HARDWARE), nodes.starts)
    out[Field.STATE] = _STATE_OF_RANK[worst]
    out[Field.FLAGS] = joined | np.where(worst == _SUSPECT, Flag.HARDWARE, 0).astype(np.uint8)


def _put_counts(out: Bytes, at: Bytes, live: Flags, nodes: Nodes) -> None:
    heard = live | (at[Field.LOOK] == Look.UNSUPPORTED)
    suspect = heard & (at[Field.FLAGS] & Flag.HARDWARE > 0)
    counted = {
        Count.QUARANTINED: suspect,
        Count.GUESTS: live & (at[Field.FLAGS] & Flag.OFFLINE > 0),
    }
    for index, state in enumerate(GPU_STATES):
        counted[Count[state.name]] = heard & ~suspect & (at[Field.STATE] == index)
    for look in _LOOKS:
        counted[Count[look.name]] = at[Field.LOOK] == look
    for column, holds in counted.items():
        out[column] = np.minimum(np.add.reduceat(holds.astype(np.intp), nodes.starts), 255)


def _put_values(out: Bytes, at: Bytes, told: Flags, nodes: Nodes) -> None:
    for fields, worst, neutral in ((_LEAST, np.minimum, 255), (_MOST, np.maximum, 0)):
        for field in fields:
            known = told & (at[field] != MISSING)
            out[field] = worst.reduceat(np.where(known, at[field], neutral), nodes.starts)
            out[field, ~np.logical_or.reduceat(known, nodes.starts)] = MISSING
    for field in _MEAN:
        known = told & (at[field] != MISSING)
        out[field] = _mean(at[field], known, nodes)


def _mean(values: Bytes, known: Flags, nodes: Nodes) -> Bytes:
    """Only what is zero everywhere is zero."""
    count = np.add.reduceat(known.astype(np.intp), nodes.starts)
    total = np.add.reduceat(np.where(known, values, 0).astype(np.intp), nodes.starts)
    mean = np.rint(total / np.maximum(count, 1))
    mean = np.where((total > 0) & (mean == 0), 1, mean)
    return np.where(count == 0, MISSING, mean).astype(np.uint8)
