"""Who a process is, from /proc."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

from agents import kernel_files
from agents.collectors import cgroups
from agents.collectors.attribution import ProcessIdentity

PROC: Final = Path("/proc")
# What the kernel adds to a cgroup that was removed before its last process had gone.
REMOVED: Final = " (deleted)"


def identity(pid: int, proc: Path = PROC) -> ProcessIdentity | None:
    """None for a process that is gone, or that this agent is not shown.

    One that is dead and only waits for its parent to notice still has its start time, and its
    memory may not have come back yet: it is told as if alive.
    """
    directory = f"{proc}/{pid}"
    try:
        stat = kernel_files.read(f"{directory}/stat")
        return _identity(pid, stat, _paths(kernel_files.read(f"{directory}/cgroup")))
    except (OSError, ValueError, IndexError):
        return None


def _identity(pid: int, stat: str, paths: Sequence[str]) -> ProcessIdentity:
    """The name in parentheses may hold anything, so the fields are counted from its end."""
    opening, closing = stat.index("("), stat.rindex(")")
    fields = stat[closing + 2 :].split(maxsplit=20)
    return ProcessIdentity(
        pid,
        started_ticks=int(fields[19]),
        parent_pid=int(fields[1]),
        session=int(fields[3]),
        name=stat[opening + 1 : closing],
        cgroup=next((path for path in paths if path not in ("", "/")), paths[0]),
        container=cgroups.container(paths),
    )


@lru_cache(cgroups.REMEMBERED)
def _paths(text: str) -> tuple[str, ...]:
    """That in the one hierarchy of version 2, "" where there is none, then those of version 1."""
    paths = dict(line.split(":", 2)[::2] for line in text.splitlines() if line.count(":") >= 2)
    return tuple(path.removesuffix(REMOVED) for path in (paths.pop("0", ""), *paths.values()))
