"""How much memory the host and its processes have, as the kernel tells it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from agents import kernel_files
from agents.actuators import cgroup
from agents.actuators.family import PROC
from agents.actuators.pressure import HostMemory

KIB: Final = 1 << 10
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def host_memory(proc: Path = PROC) -> HostMemory | None:
    """proc(5), meminfo; None where it cannot be read."""
    try:
        told = kernel_files.read(f"{proc}/meminfo")
        total_bytes, available_bytes = (_field(told, name) for name in ("MemTotal", "MemAvailable"))
    except (OSError, ValueError):
        return None
    stalled_percent = cgroup.stalled_percent(proc / "pressure" / "memory")
    return HostMemory(total_bytes, available_bytes, stalled_percent)


def resident_bytes(pid: int, proc: Path = PROC) -> int:
    """Without what it shares with others; proc(5), statm. 0 for one that is gone."""
    try:
        fields = (proc / str(pid) / "statm").read_text().split()
        return (int(fields[1]) - int(fields[2])) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return 0


def _field(told: str, name: str) -> int:
    """In bytes. Raises ValueError when it is not told."""
    begin = told.index(f"{name}:") + len(name) + 1
    return int(told[begin : told.index("kB", begin)]) * KIB
