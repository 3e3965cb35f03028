"""Watching a process from the agent's side."""

from __future__ import annotations

import struct
import subprocess
import time
from collections.abc import Callable
from typing import Any

from agents.control_block import POLICY, ControlBlock, Layout, Process

# Only what hangs ever gets there.
DEADLINE_S = 8


def until(holds: Callable[[], Any]) -> Any:
    """What it returns, as soon as that is true."""
    deadline = time.monotonic() + DEADLINE_S
    while not (found := holds()):
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.001)
    return found


def process_of(block: ControlBlock, job: subprocess.Popen[str]) -> Process | None:
    return next((slot for slot in block.read_slots() if slot.pid == job.pid), None)


def write_raw(block: ControlBlock, layout: Layout, name: str, value: int, at: int = 0) -> None:
    """Puts a number into a page behind the back of `ControlBlock`."""
    offset, width = layout.fields[name]
    with (block.directory / ("policy" if layout is POLICY else "stats")).open("r+b") as page:
        page.seek(at + offset)
        page.write(struct.pack("<" + width.value, value))
