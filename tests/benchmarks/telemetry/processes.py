"""What a process costs, as the kernel counts it."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MIB = 1 << 20


def cpu_s(pid: int) -> float:
    """User and system time of a process and of the children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(ticks) for ticks in fields[11:15]) / TICKS_PER_S


def tree_cpu_s(pid: int) -> float:
    """Of a process and all its living descendants."""
    return sum(cpu_s(each) for each in tree(pid))


def tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):  # a thread that ended meanwhile
                found += [int(child) for child in task.read_text().split()]
    return found


def rss_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES / MIB


@dataclass
class Meter:
    """The share of a core that processes used since the meter was made, by name."""

    pids: dict[str, int]
    _began: float = field(default_factory=time.monotonic)
    _before: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._before = {name: tree_cpu_s(pid) for name, pid in self.pids.items()}

    def ratios(self) -> dict[str, float]:
        elapsed = time.monotonic() - self._began
        return {
            name: (tree_cpu_s(pid) - self._before[name]) / elapsed
            for name, pid in self.pids.items()
        }
