"""What a node that lies makes of its telemetry: one way a hostile kind. Pure."""

from __future__ import annotations

import struct
from typing import Final

from msgspec.structs import replace

from agents.wire import packed
from agents.wire.faults import Lie
from agents.wire.limits import MAX_GPUS_PER_NODE
from agents.wire.messages import PackedTelemetry

_DOUBLE: Final = struct.Struct("<d")
_INDEX: Final = packed.FIELDS.index("index")
_STATE: Final = packed.FIELDS.index("state")
# What drivers and exporters have printed in place of "no value".
_SENTINEL: Final = 4_294_967_295.0
_DAY_S: Final = 86_400.0


def told(lie: Lie, telemetry: PackedTelemetry) -> PackedTelemetry:
    """In place of the telemetry that is true."""
    match lie:
        case Lie.SENTINEL:
            return _with_values(telemetry, _SENTINEL)
        case Lie.NEGATIVE:
            return _with_values(telemetry, -1e9)
        case Lie.INFINITE:
            return _with_values(telemetry, float("inf"))
        case Lie.FROM_THE_PAST:
            return replace(telemetry, number=0, sent_at=telemetry.sent_at - _DAY_S)
        case Lie.STRANGE_STATE:
            return _with_field(telemetry, _STATE, 99.0)
        case Lie.STRANGE_GPU:
            return _with_field(telemetry, _INDEX, float(MAX_GPUS_PER_NODE - 1))
        case Lie.TOO_MANY_GPUS:
            most = 2 * MAX_GPUS_PER_NODE
            return replace(telemetry, rows=telemetry.rows[: _row_bytes(telemetry)] * most)
        case Lie.TORN:
            return replace(telemetry, rows=telemetry.rows[:-3])


def _with_values(telemetry: PackedTelemetry, value: float) -> PackedTelemetry:
    rows, size = bytearray(telemetry.rows), _row_bytes(telemetry)
    for start in range(0, len(rows), size):
        for at in range(telemetry.fields, size // 8):
            _DOUBLE.pack_into(rows, start + 8 * at, value)
    return replace(telemetry, rows=bytes(rows))


def _with_field(telemetry: PackedTelemetry, at: int, value: float) -> PackedTelemetry:
    rows = bytearray(telemetry.rows)
    for start in range(0, len(rows), _row_bytes(telemetry)):
        _DOUBLE.pack_into(rows, start + 8 * at, value)
    return replace(telemetry, rows=bytes(rows))


def _row_bytes(telemetry: PackedTelemetry) -> int:
    return 8 * (telemetry.fields + 2 * telemetry.signals)
