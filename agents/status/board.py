"""The status file: written by the agent beside its state, read by whoever may read it there."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from agents.berth import Berth
from agents.complaints import Complaints
from agents.status import snapshot, view
from agents.status.snapshot import NodeView, Snapshot
from agents.wire.version import VERSION

log = logging.getLogger(__name__)

PERIOD_S: Final = 2.0
# While no job is on any of the nodes.
REST_PERIOD_S: Final = 10.0
# A fleet of thousands of simulated GPUs has better things to do than to describe them all.
GPUS_PER_SECOND: Final = 20


class Board:
    """Describes the nodes of this process, and puts that where `status` finds it."""

    def __init__(self, state_dir: Path, berths: Mapping[str, Berth]) -> None:
        self._path, self._berths = str(state_dir / snapshot.FILE_NAME), berths
        self._started_at = time.time()
        self._complaints = Complaints()

    async def run(self) -> None:
        """Until it is cancelled. A full disk costs the file, nothing else."""
        while True:
            current = self.snapshot(time.monotonic(), time.time())
            try:
                write(self._path, snapshot.encode(current))
            except OSError as error:
                if self._complaints.due(str(error)):
                    log.warning("cannot write %s: %s", self._path, error.strerror)
            await asyncio.sleep(current.period_s)

    def snapshot(self, now: float, wall: float) -> Snapshot:
        nodes = self.nodes(now, wall)
        gpus = sum(len(node.gpus) for node in nodes)
        period_s = max(self._least_period_s(), gpus / GPUS_PER_SECOND)
        return Snapshot(VERSION, os.getpid(), wall, period_s, self._started_at, nodes)

    def _least_period_s(self) -> float:
        agents = (berth.agent for berth in self._berths.values())
        at_rest = all(agent is None or agent.may_rest for agent in agents)
        return REST_PERIOD_S if at_rest else PERIOD_S

    def nodes(self, now: float, wall: float) -> tuple[NodeView, ...]:
        """Those that are up."""
        return tuple(
            view.node(berth.agent.inside(), berth.link, now, wall)
            for berth in self._berths.values()
            if berth.agent is not None
        )


def write(path: str, data: bytes) -> None:
    """Readers see the old content or the new, and none but the owner sees either. Raises
    OSError."""
    draft = f"{path}.new"
    file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(file, left) :]
    finally:
        os.close(file)
    os.rename(draft, path)  # noqa: PTH104  no more layers than it takes
