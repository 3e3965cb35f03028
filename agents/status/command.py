"""`muxflow-agent status`: what the agent of this node does right now.

It reads the file that the agent writes beside its state every few seconds, and asks no network.
Exit status 0: an agent runs and what it says is fresh; 1 otherwise.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from agents.config import CannotRun
from agents.settings.flags import state_dir_of, where_options
from agents.state import running_pid
from agents.status import snapshot as status_file
from agents.status import words
from agents.status.snapshot import Snapshot

# GPUs that a sentence names at most.
SHOWN: Final = 8


def main(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> int:
    parser = argparse.ArgumentParser("muxflow-agent status", description=__doc__)
    parser.add_argument("--json", action="store_true", help="for programs")
    where_options(parser, "state_dir")
    options = parser.parse_args(arguments)
    try:
        where = state_dir_of(options, environment)
        snapshot = read(where)
    except CannotRun as error:
        sys.stderr.write(f"muxflow-agent: {error}\n")
        return 1
    wall = time.time()
    trouble = words.trouble(snapshot, running_pid(where), where, wall)
    if options.json:
        sys.stdout.buffer.write(as_json(snapshot, trouble) + b"\n")
    else:
        _tell(snapshot, trouble, wall)
    return 1 if trouble else 0


def read(state_dir: Path) -> Snapshot | None:
    """What was said last, None when nothing was. Raises CannotRun."""
    path = state_dir / status_file.FILE_NAME
    try:
        return status_file.decode(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CannotRun(
            f"cannot read {path} ({error.strerror}): run this as the user of the agent, or as root"
        ) from error
    except msgspec.DecodeError as error:
        raise CannotRun(f"{path} is not the status of this version: {error}") from error


def expect_gpu(state_dir: Path, gpu_uuid: str) -> None:
    """Raises CannotRun for a GPU that this node does not have, as far as anybody knows."""
    try:
        snapshot = read(state_dir)
    except CannotRun:
        return
    known = [gpu.uuid for node in snapshot.nodes for gpu in node.gpus] if snapshot else []
    if known and gpu_uuid not in known:
        more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
        raise CannotRun(f"no GPU {gpu_uuid} here: there are {', '.join(known[:SHOWN])}{more}")


def as_json(snapshot: Snapshot | None, trouble: str) -> bytes:
    return msgspec.json.encode({"ok": not trouble, "trouble": trouble, "agent": snapshot})


def _tell(snapshot: Snapshot | None, trouble: str, wall: float) -> None:
    if trouble:
        sys.stderr.write(f"muxflow-agent: {trouble}\n")
    if snapshot is not None:
        sys.stdout.write(words.as_text(snapshot, wall) + "\n")
