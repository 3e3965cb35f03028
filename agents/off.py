"""The switch that needs no network: `muxflow-agent off` and the flag file it writes.

The file lists GPU UUIDs, one a line; an empty one, as `touch` makes it, means the whole node.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = "off"


@dataclass(frozen=True, slots=True)
class Switch:
    """Which GPUs of the node are switched off by hand."""

    everything: bool = False
    gpu_uuids: frozenset[str] = frozenset()

    def covers(self, gpu_uuid: str) -> bool:
        return self.everything or gpu_uuid in self.gpu_uuids


def read(state_dir: Path) -> Switch:
    """What cannot be read is off: the file was put there to stop something."""
    try:
        os.stat(f"{state_dir}/{FILE_NAME}")  # noqa: PTH116  once a second, and hardly ever there
        lines = (state_dir / FILE_NAME).read_text().split()
    except FileNotFoundError:
        return Switch()
    except (OSError, UnicodeDecodeError):
        return Switch(everything=True)
    return Switch(everything=not lines, gpu_uuids=frozenset(lines))


def switch_off(state_dir: Path, gpu_uuid: str | None) -> str:
    """What was done, in a sentence. Raises OSError."""
    switch = read(state_dir)
    if gpu_uuid is None or switch.everything:
        _write(state_dir, frozenset())
        return "Sharing is off on every GPU of this node."
    _write(state_dir, switch.gpu_uuids | {gpu_uuid})
    return f"Sharing is off on GPU {gpu_uuid}."


def switch_back(state_dir: Path, gpu_uuid: str | None) -> str:
    """What was done, in a sentence. Raises OSError."""
    left = read(state_dir).gpu_uuids - {gpu_uuid}
    if gpu_uuid is None or not left:
        (state_dir / FILE_NAME).unlink(missing_ok=True)
        return "Nothing is switched off here; the console's sharing mode holds again."
    _write(state_dir, left)
    return f"Still off: {', '.join(sorted(left))}."


def _write(state_dir: Path, gpu_uuids: frozenset[str]) -> None:
    """Replaced whole: half a file, or an empty one, would switch off more than was asked."""
    state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = state_dir / f"{FILE_NAME}.new"
    draft.write_text("".join(f"{uuid}\n" for uuid in sorted(gpu_uuids)))
    draft.rename(state_dir / FILE_NAME)
