"""A recorded telemetry file: every reading of some collector, to be shown again exactly.

JSON, one object a line: first a header with the GPUs, then one reading a line, or a null for "no
data". A last line that was cut off when its writer ended is left out; any other damage is refused.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from agents.collectors.base import Collector, GpuReading, Look, NodeReading, Origin, Unavailable
from agents.collectors.card import Card

log = logging.getLogger(__name__)

FORMAT: Final = "muxflow-telemetry"
VERSION: Final = 1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Header:
    """What was recorded, and of which GPUs."""

    format: str
    version: int
    cards: tuple[Card, ...]


@dataclass(frozen=True, slots=True)
class Line:
    """What the collector showed when it was asked `at` (monotonic seconds of the recorder)."""

    at: float
    reading: NodeReading | None


class Recorder:
    """A collector that writes down what another one shows."""

    def __init__(self, collector: Collector, cards: Sequence[Card], path: Path) -> None:
        """Begins a new file. Raises FileExistsError: a recording is never written over."""
        self._collector = collector
        self._file = path.open("xb", buffering=0)
        self._write(Header(FORMAT, VERSION, tuple(cards)))

    def collect(self, now: float) -> NodeReading | None:
        reading = self._collector.collect(now)
        if not self._file.closed:
            self._go_on(Line(now, reading))
        return reading

    def close(self) -> None:
        self._collector.close()
        self._file.close()

    def _go_on(self, line: Line) -> None:
        """For as long as the disk takes it: whoever reads the node's GPUs needs no recording."""
        try:
            self._write(line)
        except OSError as error:
            self._file.close()
            log.error("the recording ends, %s cannot be written: %s", self._file.name, error)

    def _write(self, line: Header | Line) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")


class ReplayCollector:
    """Shows a recording: the n-th call gets the n-th reading, whatever the time, then no data.

    Only the times in it move, to that of the replay.
    """

    def __init__(self, path: Path) -> None:
        """Raises Unavailable for what is no recording."""
        self.cards, self._lines = recorded(path)

    def collect(self, now: float) -> NodeReading | None:
        line = next(self._lines, None)
        return None if line is None else shown(line, now)

    def close(self) -> None: ...


def recorded(path: Path) -> tuple[tuple[Card, ...], Iterator[Line]]:
    """The GPUs, and the lines as they are asked for; both raise Unavailable."""
    texts = _whole_lines(path)
    header = _decoded(next(texts, b""), Header, path, 1)
    if header.format != FORMAT or header.version != VERSION:
        raise Unavailable(
            f"{path} is {header.format} {header.version}, and this agent reads {FORMAT} {VERSION}"
        )
    return header.cards, _lines(texts, path)


def shown(line: Line, now: float) -> NodeReading | None:
    """The reading of a line as if it were asked for now."""
    reading, later_s = line.reading, now - line.at
    if reading is None or later_s == 0.0:
        return reading
    return replace(
        reading,
        at=reading.at + later_s,
        gpus=tuple(_moved_gpu(gpu, later_s) for gpu in reading.gpus),
        looks=tuple(_moved_look(look, later_s) for look in reading.looks),
    )


def _moved_gpu(gpu: GpuReading, later_s: float) -> GpuReading:
    listed_at = gpu.processes_at
    return msgspec.structs.replace(
        gpu,
        origins=tuple(_moved(origin, later_s) for origin in gpu.origins),
        processes_at=None if listed_at is None else listed_at + later_s,
    )


def _moved(origin: Origin | None, later_s: float) -> Origin | None:
    return None if origin is None else replace(origin, at=origin.at + later_s)


def _moved_look(look: Look, later_s: float) -> Look:
    return look if look.at is None else replace(look, at=look.at + later_s)


def _lines(texts: Iterator[bytes], path: Path) -> Iterator[Line]:
    last = None
    for number, text in enumerate(texts, 2):
        line = _decoded(text, Line, path, number)
        if last is not None and line.at < last:
            raise Unavailable(f"{path}, line {number}: its time is before that of the line above")
        last = line.at
        yield line


def _whole_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            for text in file:
                if text.endswith(b"\n"):
                    yield text
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}") from error


def _decoded(text: bytes, kind: type[T], path: Path, number: int) -> T:
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unavailable(f"{path}, line {number} is not of a recording: {error}") from error
