"""A process that hangs."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from tests.process_states import state_of


def hang(pid: int) -> None:
    """Until every thread has stopped: the one that takes the signal may wait for a core, and the
    others go on meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    while any(state_of(int(thread.name)) != "T" for thread in Path(f"/proc/{pid}/task").iterdir()):
        time.sleep(0.01)
