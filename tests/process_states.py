"""What the kernel says of a process or a thread."""

from __future__ import annotations

from pathlib import Path


def state_of(task: int) -> str | None:
    """Its letter in /proc, as Z for a zombie and T for one that is stopped; None: it is gone."""
    try:
        return Path(f"/proc/{task}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None
