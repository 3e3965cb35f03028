"""Which processes on this node are those of our jobs, for a command that runs beside the agent."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from agents.collectors import procfs
from agents.collectors.attribution import OfflineJob, owner


def among(pids: Iterable[int], jobs_directory: Path) -> frozenset[int]:
    """Those that belong to a job whose supervisor wrote down its start there; see
    `agents/supervisor.py`. What cannot be read is nobody's."""
    jobs = tuple(_jobs(jobs_directory))
    known = ((pid, procfs.identity(pid)) for pid in pids)
    return frozenset(
        pid
        for pid, identity in known
        if identity is not None and owner(identity, jobs, procfs.identity) is not None
    )


def _jobs(directory: Path) -> Iterator[OfflineJob]:
    for file in directory.glob("*/started.json"):
        try:
            told = json.loads(file.read_bytes())
            yield OfflineJob(file.parent.name, 0, 0.0, int(told["pid"]), int(told["pid_ticks"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
