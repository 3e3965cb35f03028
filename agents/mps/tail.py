"""New lines of a log file that another process writes, rotates, truncates or removes."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

# What is read of a file that was there before us: its end.
FIRST_BYTES: Final = 64 << 10
# What one look reads at most; the rest comes with the next.
LOOK_BYTES: Final = 256 << 10
LINE_BYTES: Final = 2 << 10


class Tail:
    """Follows one path. `trouble` says why nothing can be read, "" when all is well; there is
    `more` when the last look did not come to the end."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._partial = b""
        self.trouble = ""
        self.more = False

    def lines(self) -> list[str]:
        """Complete lines since the last look, the end of a rotated file first. Never raises."""
        lines = self._more()
        if self._moved():
            first = self._identity is None
            self.close()
            self._open(from_end=first)
            lines += self._more()
        return lines

    def has_news(self) -> bool:
        """Whether there is something to read, or the path names another file than the one that is
        read."""
        try:
            status = self._path.stat()
        except OSError:
            return False
        is_same = (status.st_dev, status.st_ino) == self._identity
        return not is_same or status.st_size != self._offset

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def _moved(self) -> bool:
        """Whether the path names another file than the one that is open."""
        try:
            status = self._path.stat()
        except OSError as error:
            self.trouble = f"{self._path} cannot be read: {error.strerror}"
            return False
        return self._file is None or (status.st_dev, status.st_ino) != self._identity

    def _open(self, *, from_end: bool) -> None:
        """Not blocking: whatever lies there, it may not hold the agent up."""
        try:
            file = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            self.trouble = f"{self._path} cannot be read: {error.strerror}"
            return
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            os.close(file)
            self.trouble = f"{self._path} is not a file"
            return
        self._file, self._identity = file, (status.st_dev, status.st_ino)
        self._offset = max(0, status.st_size - FIRST_BYTES) if from_end else 0
        self._partial, self.trouble = b"", ""

    def _more(self) -> list[str]:
        if self._file is None:
            return []
        try:
            if os.fstat(self._file).st_size < self._offset:
                self._offset, self._partial = 0, b""
            piece = os.pread(self._file, LOOK_BYTES, self._offset)
        except OSError as error:
            self.trouble = f"{self._path} cannot be read: {error.strerror}"
            return []
        self._offset += len(piece)
        self.more = len(piece) == LOOK_BYTES
        *complete, partial = (self._partial + piece).split(b"\n")
        self._partial = partial[:LINE_BYTES]
        return [line[:LINE_BYTES].decode(errors="replace") for line in complete]
