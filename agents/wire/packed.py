"""Telemetry of fixed width: a node's second as one block, which a console reads without a loop.

`PackedTelemetry.rows` holds one row a GPU: `fields` doubles (`FIELDS`), the last value of each of
`signals` signals, then the worst of each; little endian, in the order of `names.SIGNALS`, nan where
missing. Doubles, because the agent decides on these very values and a replay must be exact. Fields
and signals are only ever appended: a reader takes those that it knows and skips the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from agents.wire.messages import GpuSample, PackedTelemetry, Telemetry
from agents.wire.names import SIGNALS

# Packed telemetry is what this version of the protocol and all later ones speak.
SINCE_PROTOCOL: Final = 2

# What a sample says of a GPU beside its signals, in the order of the fields of `GpuSample`.
EXTRAS: Final = (
    "sm_online_percent",
    "sm_offline_percent",
    "duty_percent",
    "headroom_percent",
    "nearest_signal",
    "online_processes",
    "offline_processes",
    "online_memory_bytes",
    "offline_memory_bytes",
)
FIELDS: Final = ("index", "state", *EXTRAS, "facts", "step_s")
_WHOLE: Final = frozenset(
    {
        *("index", "state", "nearest_signal", "online_processes", "offline_processes"),
        *("online_memory_bytes", "offline_memory_bytes", "facts"),
    }
)
WIDTH: Final = len(FIELDS) + 2 * len(SIGNALS)
_ROW: Final = struct.Struct(f"<{WIDTH}d")
_MISSING: Final = float("nan")


def pack(telemetry: Telemetry) -> PackedTelemetry:
    """The same second; a value that the agent does not know stays missing."""
    rows = b"".join(_ROW.pack(*_values(sample)) for sample in telemetry.samples)
    return PackedTelemetry(telemetry.number, telemetry.sent_at, len(FIELDS), len(SIGNALS), rows)


def unpack(packed: PackedTelemetry) -> Telemetry:
    """Raises ValueError for a block that is not whole, and for a row that is none of a GPU's."""
    width = packed.fields + 2 * packed.signals
    if not is_whole(packed):
        raise ValueError(f"{len(packed.rows)} bytes are not rows of {width} doubles")
    rows = struct.iter_unpack(f"<{width}d", packed.rows)
    samples = tuple(_sample(row, packed.fields, packed.signals) for row in rows)
    return Telemetry(packed.number, packed.sent_at, samples)


def is_whole(packed: PackedTelemetry) -> bool:
    """Whether it holds whole rows, each with an index and a state at least."""
    if packed.fields < 2 or packed.signals < 0:
        return False
    return len(packed.rows) % (8 * (packed.fields + 2 * packed.signals)) == 0


def _values(sample: GpuSample) -> Iterator[float]:
    told = [getattr(sample, name) for name in FIELDS]
    for value in (*told, *_column(sample.last), *_column(sample.worst)):
        yield _MISSING if value is None else value


def _column(values: tuple[float | None, ...]) -> tuple[float | None, ...]:
    """As many as there are signals: an agent that knows fewer leaves the rest missing."""
    return (*values[: len(SIGNALS)], *[None] * (len(SIGNALS) - len(values)))


def _sample(row: tuple[float, ...], fields: int, signals: int) -> GpuSample:
    told: dict[str, Any] = {
        name: int(value) if name in _WHOLE else value
        for name, value in zip(FIELDS, row[:fields], strict=False)
        if value == value
    }
    last, worst = row[fields : fields + signals], row[fields + signals :]
    return GpuSample(**told, last=_known(last), worst=_known(worst))


def _known(values: tuple[float, ...]) -> tuple[float | None, ...]:
    return tuple(value if value == value else None for value in values[: len(SIGNALS)])
