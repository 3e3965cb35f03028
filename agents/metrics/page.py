"""The metrics of the nodes of this process, at this moment."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from agents.berth import Berth
from agents.metrics.exposition import text
from agents.metrics.families import Process, Told, families
from agents.status import view
from agents.wire.version import VERSION

PAGE_BYTES: Final = resource.getpagesize()


def page(berths: Mapping[str, Berth]) -> Callable[[], str]:
    started_at = time.time()

    def render() -> str:
        now, wall = time.monotonic(), time.time()
        nodes = [
            Told(view.node(agent.inside(), berth.link, now, wall), agent.inside().spool.tally)
            for berth in berths.values()
            if (agent := berth.agent) is not None
        ]
        return text(families(nodes, process(started_at), VERSION))

    return render


def process(started_at: float) -> Process:
    times = os.times()
    return Process(started_at, times.user + times.system, _resident_bytes(), _open_fds())


def _resident_bytes() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES
    except OSError:
        return None


def _open_fds() -> int | None:
    try:
        return sum(1 for _ in Path("/proc/self/fd").iterdir())
    except OSError:
        return None
