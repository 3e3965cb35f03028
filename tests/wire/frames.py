"""A reader of the browser feed's frames, independent of the one that pages use."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

HEADER: Final = struct.Struct("<2sBBIIIdB7x")
SNAPSHOT: Final = 1


@dataclass(frozen=True)
class Frame:
    kind: int
    epoch: int
    sequence: int
    at: float
    cells: dict[int, bytes]


def decode(data: bytes) -> Frame:
    magic, version, kind, epoch, sequence, count, at, width = HEADER.unpack_from(data)
    assert (magic, version) == (b"MF", 1)
    ids = struct.unpack_from(f"<{count}I", data, HEADER.size)
    start = HEADER.size + 4 * count
    assert len(data) == start + width * count
    cells = {gpu: data[start + i * width : start + (i + 1) * width] for i, gpu in enumerate(ids)}
    return Frame(kind, epoch, sequence, at, cells)


class Screen:
    """What a browser shows: it takes deltas that follow, and asks again after a gap."""

    def __init__(self) -> None:
        self.cells: dict[int, bytes] = {}
        self.at: tuple[int, int] | None = None
        self.gap = True

    def show(self, data: bytes) -> None:
        frame = decode(data)
        if frame.kind == SNAPSHOT:
            self.cells = dict(frame.cells)
        elif self.at != (frame.epoch, frame.sequence - 1):
            self.gap = True
            return
        else:
            self.cells |= frame.cells
        self.at, self.gap = (frame.epoch, frame.sequence), False
