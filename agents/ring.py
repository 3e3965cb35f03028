"""What a node measured in the last two hours, second by second, on its disk.

A folder of numbered files, each of a quarter of an hour; the oldest goes when a new one begins. In
a file, after a header that names the cards, there are records: a head, and a block of up to ten
seconds (`wire.samples`). A record is good when its checksum says so, and what follows on one that
is not is never read: that is where a power cut tore it. Eight busy GPUs take about 3 MB.

A disk that refuses costs nothing but these two hours: what it should hold is kept in memory, as
long as there is room, and written when it takes it again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import struct
import zlib
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from agents.complaints import Complaints
from agents.wire import packed, samples
from agents.wire.limits import MAX_BLOCK_SECONDS, MAX_WINDOW_SECONDS
from agents.wire.messages import Samples, Telemetry
from agents.wire.samples import Second

log = logging.getLogger(__name__)

FOLDER_NAME: Final = "ring"
FILES: Final = 9
BLOCKS_IN_FILE: Final = 90
# Ten minutes, while the disk refuses them.
MOST_UNWRITTEN: Final = 60
MAGIC: Final = b"muxring1"
HEADER_BYTES: Final = len(MAGIC) + 8
# Length and checksum of the block, and the time of its last second.
HEAD: Final = struct.Struct("<IId")
_NAME: Final = re.compile(r"(\d{10})\.ring")

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Samples] = msgspec.msgpack.Decoder(Samples)


def folder_of(state_dir: Path, node: str) -> Path:
    return state_dir / FOLDER_NAME / quote(node, safe="")


class Ring:
    """Of one node. Nothing here raises for what a disk does."""

    def __init__(self, folder: Path, uuids: Iterable[str]) -> None:
        """`uuids` of the GPUs, in the order of their rows; what is there of others goes."""
        self._folder = folder
        self._header = MAGIC + hashlib.sha256("\n".join(uuids).encode()).digest()[:8]
        self._complaints = Complaints()
        # Told, and not in a block yet.
        self._pending: list[Telemetry] = []
        self._recent: deque[Second] = deque(maxlen=MAX_WINDOW_SECONDS)
        self._unwritten: deque[Samples] = deque(maxlen=MOST_UNWRITTEN)
        self._number = 0
        self._file: int | None = None
        self._size = self._blocks = 0
        try:
            self._open()
        except OSError as error:
            self._complain(error)

    # --- what is recorded -----------------------------------------------------------------

    def add(self, telemetry: Telemetry) -> None:
        """One second, kept for good with those that follow."""
        if self._pending and telemetry.sent_at <= self._pending[-1].sent_at:
            self.flush()  # the clock was put back
        self._pending.append(telemetry)
        if len(self._pending) >= MAX_BLOCK_SECONDS:
            self.flush()

    def flush(self) -> None:
        if self._pending:
            seconds = list(map(_second, self._pending))
            self._pending.clear()
            self._recent.extend(seconds)
            self._unwritten.append(samples.block(seconds))
        try:
            while self._unwritten:
                self._write(self._unwritten[0])
                self._unwritten.popleft()
        except OSError as error:
            self._complain(error)

    def close(self) -> None:
        self.flush()
        self._leave_file()

    # --- what is asked of it --------------------------------------------------------------

    def window(self, index: int) -> Samples | None:
        """The last seconds of the GPU at this place, None when there are none."""
        recent = [*self._recent, *map(_second, self._pending)][-MAX_WINDOW_SECONDS:]
        if not recent or index >= recent[-1].gpus:
            return None
        return samples.block([samples.of_gpu(one, index) for one in recent])

    def after(self, at: float) -> Iterator[Samples]:
        """All blocks that end later (Unix seconds), oldest first; those of the disk as they are
        asked for."""
        number = min(self._numbers(), default=self._number)
        while number <= self._number:
            yield from _blocks(self._path(number), at)
            number += 1
        waiting = [*self._unwritten]
        if self._pending:
            waiting.append(samples.block(list(map(_second, self._pending))))
        yield from (block for block in waiting if block.times[-1] > at)

    # --- the files ------------------------------------------------------------------------

    def _open(self) -> None:
        """Goes on where the last life of this agent ended; a record that it tore is written over.
        Raises OSError."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for number in self._numbers():
            if not self._path(number).read_bytes().startswith(self._header):
                self._path(number).unlink()
        self._number = max(self._numbers(), default=0)
        if self._number:
            self._size = len(self._header)
            for record in _records(self._path(self._number).read_bytes()):
                self._size, self._blocks = record.end, self._blocks + 1

    def _write(self, block: Samples) -> None:
        """Raises OSError. What a full disk took of a record is written over by the next try."""
        if self._number == 0 or self._blocks >= BLOCKS_IN_FILE:
            self._begin_file()
        if self._file is None:
            self._file = os.open(self._path(self._number), os.O_WRONLY | os.O_CLOEXEC)
        body = _encoder.encode(block)
        record = HEAD.pack(len(body), zlib.crc32(body), block.times[-1]) + body
        if not self._size:
            record = self._header + record
        _write_at(self._file, record, self._size)
        self._size, self._blocks = self._size + len(record), self._blocks + 1

    def _begin_file(self) -> None:
        """Raises OSError."""
        self._leave_file()
        path = self._path(self._number + 1)
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        self._number, self._size, self._blocks = self._number + 1, 0, 0
        for number in self._numbers():
            if number <= self._number - FILES:
                self._path(number).unlink()

    def _leave_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _numbers(self) -> list[int]:
        """Of the files that are there, ascending."""
        try:
            names = os.listdir(self._folder)  # noqa: PTH208  names are all that is wanted
        except OSError:
            return []
        return sorted(int(found[1]) for name in names if (found := _NAME.fullmatch(name)))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number:010d}.ring"

    def _complain(self, error: OSError) -> None:
        if self._complaints.due(str(error.strerror)):
            log.warning(
                "%s cannot be written (%s): of what is measured, this agent keeps the last %d"
                " minutes in memory; all else goes on",
                *(self._folder, error.strerror, MOST_UNWRITTEN * MAX_BLOCK_SECONDS // 60),
            )


def _second(telemetry: Telemetry) -> Second:
    return samples.second(packed.pack(telemetry))


def _write_at(file: int, data: bytes, offset: int) -> None:
    """All of it. Raises OSError."""
    left = memoryview(data)
    while left:
        written = os.pwrite(file, left, offset)
        left, offset = left[written:], offset + written


def _blocks(path: Path, after: float) -> Iterator[Samples]:
    """Those that end later. A file that is gone by now, or cannot be read, has none."""
    try:
        data = path.read_bytes()
    except OSError:
        return
    for record in _records(data):
        if record.last_at > after:
            yield _decoder.decode(record.body)


def _records(data: bytes) -> Iterator[_Record]:
    """Those of a whole file up to the first that is not good."""
    at = HEADER_BYTES
    while at + HEAD.size <= len(data):
        length, checksum, last_at = HEAD.unpack_from(data, at)
        body = data[at + HEAD.size : at + HEAD.size + length]
        if len(body) < length or zlib.crc32(body) != checksum:
            return
        at += HEAD.size + length
        yield _Record(at, last_at, body)


class _Record(NamedTuple):
    """`end`: where the next begins."""

    end: int
    last_at: float
    body: bytes
