"""How much memory the host and its processes have, as the kernel tells it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from agents.actuators import cgroup
from agents.actuators.family import PROC
from agents.actuators.pressure import HostMemory

KIB: Final = 1 << 10
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def host_memory(proc: Path = PROC) -> HostMemory | None:
    """proc(5), meminfo; None where it cannot be read."""
    try:
        lines = (proc / "meminfo").read_text().splitlines()
        told = {name: int(rest.split()[0]) * KIB for name, rest in map(_split, lines) if rest}
        total_bytes, available_bytes = told["MemTotal"], told["MemAvailable"]
    except (OSError, ValueError, KeyError):
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


def _split(line: str) -> tuple[str, str]:
    name, _, rest = line.partition(":")
    return name, rest.strip()
