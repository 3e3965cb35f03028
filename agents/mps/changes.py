"""Which folders may have changed, as the kernel tells it: inotify(7). One question for all of them
costs a small part of a look at each of their files."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable, Iterator
from typing import Final

MODIFY, MOVED_TO, CREATE, DELETE_SELF, MOVE_SELF = 0x2, 0x80, 0x100, 0x400, 0x800
CHANGES: Final = MODIFY | MOVED_TO | CREATE | DELETE_SELF | MOVE_SELF
OVERFLOW, IGNORED = 0x4000, 0x8000
GONE: Final = DELETE_SELF | MOVE_SELF | IGNORED
EVENT: Final = struct.Struct("iIII")
READ_BYTES: Final = 4 << 10
NONE: Final[frozenset[str]] = frozenset()


class Changes:
    """Since the last question. What the kernel does not tell may have changed: a folder that is not
    there, and every folder where it keeps no watch or has lost count."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self._descriptor: int | None = None if descriptor < 0 else descriptor
        self._folders: dict[int, str] = {}
        # Since a question that found them all watched, nothing has gone wrong with any.
        self._all_watched: frozenset[str] | None = None

    def take(self, folders: Iterable[str]) -> frozenset[str]:
        """Those of `folders` that may have changed."""
        wanted = frozenset(folders)
        told = self._told()
        if wanted == self._all_watched:
            return told
        unwatched = wanted - frozenset(self._folders.values())
        for folder in unwatched:
            self._watch(folder)
        self._all_watched = None if unwatched else wanted
        return told | unwatched

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor, self._folders = None, {}

    def _watch(self, folder: str) -> None:
        if self._descriptor is None:
            return
        watch = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), CHANGES)
        if watch >= 0:
            self._folders[watch] = folder

    def _told(self) -> frozenset[str]:
        raw = self._read()
        return NONE if raw is None else self._changed(raw)

    def _changed(self, raw: bytes | None) -> frozenset[str]:
        told: set[str] = set()
        for watch, mask in self._events(raw):
            if mask & OVERFLOW:
                told.update(self._folders.values())
            elif folder := self._folders.get(watch):
                told.add(folder)
                if mask & GONE:
                    del self._folders[watch]
                    self._all_watched = None
        return frozenset(told)

    def _events(self, raw: bytes | None) -> Iterator[tuple[int, int]]:
        while raw is not None:
            yield from _parsed(raw)
            raw = self._read()

    def _read(self) -> bytes | None:
        """Whole events; None when there are no more."""
        if self._descriptor is None:
            return None
        try:
            return os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return None


def _parsed(raw: bytes) -> Iterator[tuple[int, int]]:
    """The watch and the mask of each event."""
    at = 0
    while at < len(raw):
        watch, mask, _, name_bytes = EVENT.unpack_from(raw, at)
        at += EVENT.size + name_bytes
        yield watch, mask
