"""The control daemon of each simulated GPU: a unit of its own, as `muxflow-agent mps enable` starts
it, that ends with the demo.
"""

from __future__ import annotations

import logging
import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from agents.collectors.nvml import Nvml
from agents.mps import unit
from agents.mps.control import PROGRAM as NAME
from agents.mps.control import ControlFailed, Place
from agents.stub import mps_daemon
from agents.stub.cuda import SHARED_FILE

log = logging.getLogger(__name__)

LIFELINE: Final = "lifeline"
PROGRAM: Final = """\
#!/bin/sh
# The stand-in for NVIDIA's program, told which simulated GPU the directory belongs to.
case "$CUDA_MPS_PIPE_DIRECTORY" in
{cases}
esac
export STUB_MPS STUB_MPS_REPORT={report} STUB_LIFELINE={lifeline}
exec {program} "$@"
"""


@dataclass(frozen=True)
class Card:
    """One simulated GPU: its daemon's directories and its shared file."""

    place: Place
    file: Path

    @property
    def uuid(self) -> str:
        return self.place.gpu_uuid


def uuids() -> tuple[str, ...]:
    """Of the GPUs of the stand-in driver. Raises Unavailable."""
    nvml = Nvml()
    found = tuple(card.uuid for card in nvml.cards())
    nvml.close()
    return found


def cards(mps_dir: Path, uuids: Sequence[str]) -> tuple[Card, ...]:
    """In the order of their index; the stand-in driver's names of their files."""
    files = [SHARED_FILE, *(f"{SHARED_FILE}.{index}" for index in range(1, len(uuids)))]
    return tuple(
        Card(unit.place_of(uuid, mps_dir), mps_dir / file)
        for uuid, file in zip(uuids, files, strict=True)
    )


class Daemons:
    """Keeps them there, as a service manager does."""

    def __init__(self, mps_dir: Path, cards: Sequence[Card], report: Path) -> None:
        """`report` is the program that tells of a shared file."""
        self._cards = tuple(cards)
        mps_dir.mkdir(parents=True, exist_ok=True)
        # Its writing end is in this process alone: whoever reads there sees us end.
        self._lifeline = mps_dir / LIFELINE
        self._lifeline.unlink(missing_ok=True)
        os.mkfifo(self._lifeline, 0o600)
        self._held = os.open(self._lifeline, os.O_RDWR)
        self._program = self._written(mps_dir / "bin", report)

    def keep(self) -> None:
        """Starts those that are not there."""
        for card in self._cards:
            try:
                unit.start_detached(card.place, (str(self._program),))
            except ControlFailed as failure:
                log.error("%s: %s", card.uuid, failure)

    def _written(self, folder: Path, report: Path) -> Path:
        """By NVIDIA's name, for the PATH of the agent."""
        inside = folder / "stub"
        inside.mkdir(parents=True, exist_ok=True)
        program = folder / NAME
        cases = "\n".join(
            f"*/{card.uuid}/pipe) STUB_MPS={shlex.quote(str(card.file))} ;;" for card in self._cards
        )
        text = PROGRAM.format(
            cases=cases,
            report=shlex.quote(str(report)),
            lifeline=shlex.quote(str(self._lifeline)),
            program=shlex.quote(str(mps_daemon.write_program(inside))),
        )
        program.write_text(text)
        program.chmod(0o755)
        return program
