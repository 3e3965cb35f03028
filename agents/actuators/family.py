"""The processes of one job as the kernel tells them, and which of them use CUDA unseen."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

DRIVER: Final = "/libcuda.so"
PROC: Final = Path("/proc")

# The children of a process, by its pid.
Children: TypeAlias = Callable[[int], Iterable[int]]


def children(proc: Path = PROC) -> Children:
    """Asked of the kernel where it keeps lists of them (CONFIG_PROC_CHILDREN, as distributions
    do); else as of now, from a look at every process, which takes 50 ms for a thousand."""
    me = os.getpid()
    if (proc / str(me) / "task" / str(me) / "children").exists():
        return lambda pid: _listed(pid, proc)
    by_parent: dict[int, list[int]] = defaultdict(list)
    for entry in os.scandir(proc):
        if entry.name.isdecimal() and (parent := _parent(entry.name, proc)) is not None:
            by_parent[parent].append(int(entry.name))
    return lambda pid: by_parent.get(pid, ())


def descendants(pid: int, children: Children) -> frozenset[int]:
    """All below `pid`. Those whose own parent died are below the supervisor, which takes them in:
    ask for its pid."""
    found: set[int] = set()
    todo = [pid]
    while todo:
        fresh = [child for child in children(todo.pop()) if child not in found]
        found.update(fresh)
        todo += fresh
    return frozenset(found)


def without_library(pids: Iterable[int], library: str) -> frozenset[int]:
    """Those that have loaded the driver and not `library` (the path of its file)."""
    return frozenset(pid for pid in pids if _has_driver_alone(pid, library))


def _listed(pid: int, proc: Path) -> list[int]:
    """proc(5), /proc/PID/task/TID/children: by the thread that made them."""
    try:
        lists = [path.read_text() for path in (proc / str(pid) / "task").glob("*/children")]
    except OSError:  # gone between two looks
        return []
    return [int(child) for told in lists for child in told.split()]


def _parent(pid: str, proc: Path) -> int | None:
    """proc(5): the second field after the name, which is in parentheses and may hold anything."""
    try:
        stat = (proc / pid / "stat").read_text(errors="replace")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])


def _has_driver_alone(pid: int, library: str) -> bool:
    try:
        mapped = Path(f"/proc/{pid}/maps").read_text(errors="replace")
    except OSError:
        return False
    return DRIVER in mapped and library not in mapped
