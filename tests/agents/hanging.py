"""A process that hangs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path


def hang(pid: int) -> None:
    """Until every thread has stopped: the one that takes the signal may wait for a core, and the
    others go on meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    while any(_state(thread) != "T" for thread in Path(f"/proc/{pid}/task").iterdir()):
        time.sleep(0.01)


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]
