"""The processes of one job as the kernel tells them, and which of them use CUDA unseen."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, TypeAlias

DRIVER: Final = "/libcuda.so"
PROC: Final = Path("/proc")
# Of signals that a process handles, ignores and holds back.
MASKS: Final = ("SigCgt", "SigIgn", "SigBlk")

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


def deaf(pids: Iterable[int], group: int, proc: Path = PROC) -> frozenset[int]:
    """Those that a SIGTERM to the process group `group` does not reach: of another group, or
    ignoring it, or holding it back, or the first of a PID namespace without a handler (which the
    kernel protects from it)."""
    return frozenset(pid for pid in pids if _is_deaf(pid, group, proc))


def _is_deaf(pid: int, group: int, proc: Path) -> bool:
    try:
        lines = (proc / str(pid) / "status").read_text(errors="replace").splitlines()
        stat = (proc / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return False
    told = dict(line.split(":", 1) for line in lines if ":" in line)
    is_first = told.get("NSpid", "").split()[1:][-1:] == ["1"]
    handles, ignores, blocks = (_has_term(told.get(name, "0")) for name in MASKS)
    return int(stat[2]) != group or ignores or blocks or (is_first and not handles)


def _has_term(mask: str) -> bool:
    """proc(5), status: a set of signals in hexadecimal."""
    return bool(int(mask, 16) >> (signal.SIGTERM - 1) & 1)


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
