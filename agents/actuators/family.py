"""The processes of one job as the kernel tells them, and which of them use CUDA unseen."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

DRIVER: Final = "/libcuda.so"


def parents() -> dict[int, int]:
    """The parent of every process of this machine, by pid."""
    names = (entry.name for entry in os.scandir("/proc"))
    found = ((int(name), _parent(name)) for name in names if name.isdecimal())
    return {pid: parent for pid, parent in found if parent is not None}


def descendants(pid: int, parents: Mapping[int, int]) -> frozenset[int]:
    """All below `pid`. Those whose own parent died are below the supervisor, which takes them in:
    ask for its pid."""
    children: dict[int, list[int]] = {}
    for child, parent in parents.items():
        children.setdefault(parent, []).append(child)
    found: set[int] = set()
    todo = [pid]
    while todo:
        fresh = [child for child in children.get(todo.pop(), ()) if child not in found]
        found.update(fresh)
        todo += fresh
    return frozenset(found)


def without_library(pids: Iterable[int], library: str) -> frozenset[int]:
    """Those that have loaded the driver and not `library` (the path of its file).

    One that has both needs no look: it has a slot after cuInit, or cuInit has refused.
    """
    return frozenset(pid for pid in pids if _has_driver_alone(pid, library))


def _parent(pid: str) -> int | None:
    """proc(5): the second field after the name, which is in parentheses and may hold anything."""
    try:
        stat = Path("/proc", pid, "stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def _has_driver_alone(pid: int, library: str) -> bool:
    try:
        mapped = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False
    return DRIVER in mapped and library not in mapped
