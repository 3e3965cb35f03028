"""Ours and the straightforward design side by side, at the largest size which that one holds."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from websockets.asyncio.client import connect

from console.demo.embedded import free_port
from console.demo.processes import die_with_parent
from tests.benchmarks.telemetry import ingest
from tests.benchmarks.telemetry.browsers import Tab
from tests.benchmarks.telemetry.processes import Meter
from tests.benchmarks.telemetry.site import ROOT, Site, site

# It holds a size while its browser is told of every node every second, in good time.
HOLDS_SHARE: Final = 0.98
HOLDS_LATE_S: Final = 2.0
CONNECT_S: Final = 4.0
TRY_S: Final = 6.0


@dataclass(frozen=True)
class Size:
    """Tried are `sizes` nodes, ascending; then both for `rounds` times `round_s`."""

    gpus: int = 8
    sizes: Sequence[int] = (450, 600, 800)
    rounds: int = 3
    round_s: float = 6.0
    seed: int = 1


def measure(size: Size) -> dict[str, Any]:
    """CPU time of the serving processes a GPU sample, in the same moments, one browser each."""
    return asyncio.run(_measure(size))


async def _measure(size: Size) -> dict[str, Any]:
    held = await _largest(size)
    with (
        site(held, size.gpus, 0, size.seed) as place,
        ingest.fleet(place, ingest.Size(held, size.gpus, fleet="sender"), held),
        plain_console(held, size.gpus) as (port, pid),
    ):
        tabs = (Tab(place), PlainTab(port))
        tasks = [asyncio.create_task(tab.run()) for tab in tabs]
        await _all_there(place, held)
        costs = [
            await _round(place, pid, held * size.gpus, size.round_s) for _ in range(size.rounds)
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ours, plain = np.median(np.array(costs), axis=0)
    return {
        "plain_nodes": held,
        "us_per_sample": float(ours),
        "us_per_sample_plain": float(plain),
        "cpu_ratio_vs_plain_channels": float(plain / ours),
    }


async def _largest(size: Size) -> int:
    held = size.sizes[0]
    for nodes in size.sizes:
        with plain_console(nodes, size.gpus) as (port, _):
            tab = PlainTab(port)
            task = asyncio.create_task(tab.run())
            await asyncio.sleep(CONNECT_S)
            before, tab.ages = tab.messages, []
            await asyncio.sleep(TRY_S)
            told, late = tab.messages - before, np.percentile(tab.ages or [np.inf], 99)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if told < HOLDS_SHARE * nodes * TRY_S or late > HOLDS_LATE_S:
            break
        held = nodes
    return held


async def _all_there(place: Site, nodes: int) -> None:
    async with asyncio.timeout(ingest.CONNECT_S):
        while (await asyncio.to_thread(ingest.metrics, place))["agents"] < nodes:
            await asyncio.sleep(0.2)
    await asyncio.sleep(CONNECT_S)


async def _round(
    place: Site, plain_pid: int, samples_per_s: int, duration_s: float
) -> tuple[float, float]:
    """Microseconds a sample: ours with its Redis and PostgreSQL, theirs, which has none."""
    meter, began = Meter({**place.pids, "plain": plain_pid}), time.monotonic()
    await asyncio.sleep(duration_s)
    ratios, samples = meter.ratios(), samples_per_s * (time.monotonic() - began)
    ours = sum(ratios[name] for name in ("gateway", "redis", "postgres") if name in ratios)
    elapsed = time.monotonic() - began
    return ours * elapsed / samples * 1e6, ratios["plain"] * elapsed / samples * 1e6


class PlainTab:
    """What one browser sees of it: how many messages, and how old each was."""

    def __init__(self, port: int) -> None:
        self._url, self.messages = f"ws://127.0.0.1:{port}/browsers/", 0
        self.ages: list[float] = []

    async def run(self) -> None:
        async with connect(self._url, compression=None, max_size=None, proxy=None) as stream:
            async for text in stream:
                self.messages += 1
                self.ages.append(time.time() - json.loads(text)["sent_at"])


@contextmanager
def plain_console(nodes: int, gpus: int) -> Iterator[tuple[int, int]]:
    """Its port and its pid, with its agents."""
    port, settings = free_port(), {"DJANGO_SETTINGS_MODULE": "tests.benchmarks.telemetry.stock"}
    serve = [
        *(sys.executable, "-m", "uvicorn", "tests.benchmarks.telemetry.plain:application"),
        *("--port", str(port), "--log-level", "error", "--lifespan", "off"),
    ]
    speak = [
        *(sys.executable, "-m", "tests.benchmarks.telemetry.plain"),
        *(str(port), str(nodes), "--gpus", str(gpus)),
    ]
    started = []
    try:
        for command in (serve, speak):
            started.append(
                subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env=os.environ | settings,
                    stderr=subprocess.DEVNULL,
                    preexec_fn=die_with_parent,
                )
            )
            time.sleep(2.0)
        yield port, started[0].pid
    finally:
        for process in reversed(started):
            process.kill()
            process.wait()
