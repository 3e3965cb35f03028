"""What telemetry may say. Values outside these bounds count as missing. Pure (numpy).

The bounds are wide: they catch broken drivers and hostile agents, not unusual load. Messages are
judged many at a time, as one block: a fleet sends thousands a second.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from agents.wire import packed
from agents.wire.limits import MAX_GPUS_PER_NODE, MAX_SKEW_S
from agents.wire.messages import PackedTelemetry
from agents.wire.names import GPU_STATES, SIGNALS, Signal
from console.telemetry.latest import COLUMNS, Bytes, Flags, Floats, Rows, Times

_PERCENT: Final = (0.0, 100.5)
_CARD_BYTES: Final = (0.0, 4e12)
_PROCESSES: Final = (0.0, 10_000.0)

BOUNDS: Final[Mapping[str, tuple[float, float]]] = {
    Signal.GPU_UTIL: _PERCENT,
    Signal.SM_ACTIVITY: _PERCENT,
    Signal.SM_OCCUPANCY: _PERCENT,
    Signal.MEMORY_BANDWIDTH: _PERCENT,
    Signal.SM_CLOCK: (0.0, 10_000.0),
    Signal.MEMORY: _CARD_BYTES,
    Signal.PCIE_RX: (0.0, 1e12),
    Signal.TEMPERATURE: (-40.0, 150.0),
    Signal.POWER: (0.0, 5_000.0),
    Signal.XID: (0.0, 1_000.0),
    Signal.ONLINE_P99: (0.0, 3.6e6),
    Signal.ONLINE_QPS: (0.0, 1e8),
    "sm_online_percent": _PERCENT,
    "sm_offline_percent": _PERCENT,
    "duty_percent": _PERCENT,
    "headroom_percent": (-1e6, 100.5),
    "nearest_signal": (0.0, len(SIGNALS) - 1.0),
    "online_processes": _PROCESSES,
    "offline_processes": _PROCESSES,
    "online_memory_bytes": _CARD_BYTES,
    "offline_memory_bytes": _CARD_BYTES,
}
_LOW: Final = np.array([BOUNDS[name][0] for name in COLUMNS], np.float32)
_HIGH: Final = np.array([BOUNDS[name][1] for name in COLUMNS], np.float32)
_SIGNALS: Final = len(SIGNALS)
STRANGER: Final = -1
NOT_YET: Final = -2  # new, and the layout was not read since: left out, and no fault of anybody
_FIRST_EXTRA: Final = packed.FIELDS.index(packed.EXTRAS[0])

_Doubles: TypeAlias = npt.NDArray[np.float64]


class Arrival(NamedTuple):
    """One message: `row_of` has the row of the grid at each index of the node, STRANGER where it
    has no GPU, NOT_YET where that has no row; `at` is the time of its samples (`sample_time`)."""

    telemetry: PackedTelemetry
    row_of: Rows
    at: float


class Refusal(NamedTuple):
    """`times` GPUs or values were left out for `reason`; `first` is the place of the arrival that
    had the first of them."""

    reason: str
    times: int
    first: int


class Sampled(NamedTuple):
    """What remains: one entry a GPU, in the order of arrival."""

    rows: Rows
    at: Times
    state: Bytes
    values: Floats
    worst: Floats
    by_receipt: Flags  # `at` is not what the node's own clock said


def fault_of(telemetry: PackedTelemetry) -> str:
    """Why a message is refused whole; "" when it is not."""
    if not packed.is_whole(telemetry):
        return "telemetry: a block that is not whole"
    width = 8 * (telemetry.fields + 2 * telemetry.signals)
    if len(telemetry.rows) > MAX_GPUS_PER_NODE * width:
        return "telemetry: more GPUs than a node may have"
    return ""


def sift(arrivals: Sequence[Arrival]) -> tuple[list[Sampled], list[Refusal]]:
    """Keep what can be true of messages without a fault. One `Sampled` a run of messages of one
    width: there is one, unless agents of different versions speak."""
    sampled, refused = [], []
    for _, run in groupby(enumerate(arrivals), key=lambda each: _shape(each[1].telemetry)):
        places, messages = zip(*run, strict=True)
        kept, left_out = _sift(messages)
        sampled.append(kept)
        refused += [each._replace(first=places[each.first]) for each in left_out]
    return sampled, refused


def sample_time(sent_at: float, received_at: float) -> float:
    """The agent's clock while it agrees with ours within MAX_SKEW_S, else the time of receipt."""
    return sent_at if abs(sent_at - received_at) <= MAX_SKEW_S else received_at


def _shape(telemetry: PackedTelemetry) -> tuple[int, int]:
    return telemetry.fields, telemetry.signals


def _sift(messages: Sequence[Arrival]) -> tuple[Sampled, list[Refusal]]:
    fields, signals = _shape(messages[0].telemetry)
    width = fields + 2 * signals
    block = np.frombuffer(b"".join([each.telemetry.rows for each in messages]), "<f8")
    block = block.reshape(-1, width)
    counts = [len(each.telemetry.rows) // (8 * width) for each in messages]
    sender = np.repeat(np.arange(len(messages)), counts)

    row = _rows(block[:, 0], sender, [each.row_of for each in messages])
    known = row >= 0
    kept = known & np.isin(block[:, 1], np.arange(len(GPU_STATES)))
    reasons = {
        "telemetry: GPU not in this node's inventory": row == STRANGER,
        "telemetry: unknown state": known & ~kept,
    }
    refused = [_refusal(reason, left_out, sender) for reason, left_out in reasons.items()]
    if not kept.all():
        block, row, sender = block[kept], row[kept], sender[kept]

    values, worst = _columns(block, fields, signals)
    wrong = _out_of_bounds(values, _LOW, _HIGH)
    wrong_worst = _out_of_bounds(worst, _LOW[:_SIGNALS], _HIGH[:_SIGNALS])
    count = int(wrong.sum() + wrong_worst.sum())
    if count:
        by_gpu = wrong.any(axis=1) | wrong_worst.any(axis=1)
        first = int(sender[int(by_gpu.argmax())])
        refused.append(Refusal("telemetry: value out of bounds", count, first))
    at = np.array([each.at for each in messages])
    by_receipt = at != np.array([each.telemetry.sent_at for each in messages])
    sampled = Sampled(
        row, at[sender], block[:, 1].astype(np.uint8), values, worst, by_receipt[sender]
    )
    return sampled, [each for each in refused if each.times]


def _rows(index: _Doubles, sender: Rows, tables: Sequence[Rows]) -> Rows:
    """The row of the grid of each index by its sender's table."""
    sizes = np.array([len(table) for table in tables])
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    all_rows = np.concatenate([*tables, [STRANGER]])
    is_there = (index >= 0) & (index < sizes[sender]) & (index == np.floor(index))
    at = starts[sender[is_there]] + index[is_there].astype(np.intp)
    rows = np.full(len(index), STRANGER, np.intp)
    rows[is_there] = all_rows[at]
    return rows


def _refusal(reason: str, left_out: Flags, sender: Rows) -> Refusal:
    count = int(left_out.sum())
    return Refusal(reason, count, int(sender[int(left_out.argmax())]) if count else -1)


def _columns(block: _Doubles, fields: int, signals: int) -> tuple[Floats, Floats]:
    """Values in the order of COLUMNS, and the worst of each signal. What the sender's version does
    not know is missing, what ours does not is skipped."""
    values = np.full((len(block), len(COLUMNS)), np.nan, np.float32)
    worst = np.full((len(block), _SIGNALS), np.nan, np.float32)
    told = min(signals, _SIGNALS)
    extras = max(0, min(fields - _FIRST_EXTRA, len(packed.EXTRAS)))
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large becomes inf, and goes
        values[:, :told] = block[:, fields : fields + told]
        values[:, _SIGNALS : _SIGNALS + extras] = block[:, _FIRST_EXTRA : _FIRST_EXTRA + extras]
        worst[:, :told] = block[:, fields + signals : fields + signals + told]
    return values, worst


def _out_of_bounds(values: Floats, low: Floats, high: Floats) -> Flags:
    """Which were, after they were made missing."""
    wrong: Flags = (values < low) | (values > high)
    values[wrong] = np.nan
    return wrong
