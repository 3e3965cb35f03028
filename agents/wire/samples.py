"""Recorded telemetry: some seconds as one block, for the disk, the back-fill and the event.

`Samples.deflated` is zlib's of the rows of all its seconds, second after second, in the layout of
`packed`, but as little-endian float32: a history is drawn, no decision is made on it anew. Before
they are deflated, the bytes are sorted by their place in the row, so that a value that stays where
it was costs nothing: two hours of eight busy GPUs take about 3 MB instead of 17.
"""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from agents.wire.limits import MAX_GPUS_PER_NODE, MAX_WINDOW_SECONDS
from agents.wire.messages import PackedTelemetry, Samples

FLOAT_BYTES: Final = 4
# Numbers in a row: far more than there are.
MOST_WIDE: Final = 1_024
# The quickest: others save a twentieth.
LEVEL: Final = 1


class Second(NamedTuple):
    """One telemetry, as it is kept: `rows` are of all its GPUs, in float32."""

    number: int
    at: float
    gpus: int
    fields: int
    signals: int
    rows: bytes


def second(packed: PackedTelemetry) -> Second:
    count = len(packed.rows) // struct.calcsize("d")
    values = struct.unpack(f"<{count}d", packed.rows)
    gpus = count // (packed.fields + 2 * packed.signals)
    rows = struct.pack(f"<{count}f", *values)
    return Second(packed.number, packed.sent_at, gpus, packed.fields, packed.signals, rows)


def block(seconds: Sequence[Second]) -> Samples:
    """At least one, all of the same GPUs."""
    first = seconds[0]
    width = FLOAT_BYTES * (first.fields + 2 * first.signals)
    rows = b"".join(one.rows for one in seconds)
    return Samples(
        tuple(one.number for one in seconds),
        tuple(one.at for one in seconds),
        first.gpus,
        first.fields,
        first.signals,
        zlib.compress(b"".join(rows[place::width] for place in range(width)), LEVEL),
    )


def inflate(samples: Samples) -> bytes:
    """The rows: [second, GPU, number], little-endian float32, nan where missing. Raises ValueError
    for what is no block, and for one that would be larger than it says."""
    width = FLOAT_BYTES * (samples.fields + 2 * samples.signals)
    size = len(samples.times) * samples.gpus * width
    if not _is_possible(samples):
        raise ValueError(f"no block: {len(samples.times)} seconds of {samples.gpus} GPUs")
    inflater = zlib.decompressobj()
    try:
        sorted_bytes = inflater.decompress(samples.deflated, size + 1)
    except zlib.error as error:
        raise ValueError(f"no block: {error}") from error
    if len(sorted_bytes) != size:
        raise ValueError(f"the rows of this block take {size} bytes, and it holds others")
    rows, count = bytearray(size), size // width
    for place in range(width):
        rows[place::width] = sorted_bytes[place * count : (place + 1) * count]
    return bytes(rows)


def seconds(samples: Samples) -> list[Second]:
    """Raises ValueError as `inflate` does."""
    rows, count = inflate(samples), len(samples.times)
    size = len(rows) // count
    layout = samples.gpus, samples.fields, samples.signals
    return [
        Second(number, at, *layout, rows[place * size : (place + 1) * size])
        for place, (number, at) in enumerate(zip(samples.numbers, samples.times, strict=True))
    ]


def between(samples: Samples, after: float, until: float) -> Samples | None:
    """Those seconds that are later than `after`, and no later than `until`. Raises ValueError as
    `inflate` does, where it holds others."""
    wanted = [after < at <= until for at in samples.times]
    if all(wanted):
        return samples
    if not any(wanted):
        return None
    return block([one for one, is_one in zip(seconds(samples), wanted, strict=True) if is_one])


def of_gpu(one: Second, place: int) -> Second:
    """The second of the GPU at this place alone."""
    size = len(one.rows) // one.gpus
    return one._replace(gpus=1, rows=one.rows[place * size : (place + 1) * size])


def event_data(samples: Samples) -> dict[str, Any]:
    """As JSON has it, for `Event.data["window"]`."""
    told: dict[str, Any] = msgspec.structs.asdict(samples)
    return told | {"deflated": base64.b64encode(samples.deflated).decode()}


def of_event(window: object) -> Samples | None:
    """What `event_data` made; None for anything else. `inflate` still holds it against its size."""
    if not isinstance(window, Mapping):
        return None
    try:
        deflated = base64.b64decode(window["deflated"], validate=True)
        fields = {name: window[name] for name in Samples.__struct_fields__}
        return msgspec.convert([*(fields | {"deflated": deflated}).values()], Samples)
    except (KeyError, TypeError, ValueError, binascii.Error, msgspec.MsgspecError):
        return None


def _is_possible(samples: Samples) -> bool:
    return (
        1 <= len(samples.times) == len(samples.numbers) <= MAX_WINDOW_SECONDS
        and 1 <= samples.gpus <= MAX_GPUS_PER_NODE
        and samples.fields >= 1
        and samples.signals >= 0
        and samples.fields + 2 * samples.signals <= MOST_WIDE
    )
