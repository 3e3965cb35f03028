"""The fleet through one web process for ten minutes, tabs that watch it, and a storm at the end."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, islice
from statistics import median
from typing import Any, Final

import numpy as np

from agents.wire import credentials, faults
from console.demo.processes import die_with_parent
from tests.benchmarks.telemetry.browsers import FILLS, Observer, Tab, stalled
from tests.benchmarks.telemetry.probes import Probe
from tests.benchmarks.telemetry.processes import Meter, rss_mib
from tests.benchmarks.telemetry.site import ROOT, TOKEN, Site, site

PROBES: Final = 20
CONNECT_S: Final = 60.0
# After all are there: what is written only once is, and the watcher has its map.
SETTLE_S: Final = 10.0
SAMPLE_S: Final = 5.0
STORM_S: Final = 60.0
LOOK_S: Final = 0.25
STALLED: Final = 3
PAGES: Final = ("/healthz", "/nodes/")


@dataclass(frozen=True)
class Size:
    """`nodes` with those that are probes; the last `watch_s` of `duration_s` with many tabs."""

    nodes: int = 2_500
    gpus: int = 8
    duration_s: float = 600.0
    watchers: int = 50
    watch_s: float = 60.0
    seed: int = 1
    fleet: str = "agent"


def measure(size: Size) -> dict[str, Any]:
    probes = min(PROBES, size.nodes // 10)
    with (
        site(size.nodes - probes, size.gpus, probes, size.seed) as place,
        fleet(place, size, size.nodes - probes) as pid,
    ):
        place.pids["fleet"] = pid
        return asyncio.run(Run(place, size).measure())


class Run:
    def __init__(self, place: Site, size: Size) -> None:
        self._site, self._size = place, size
        self._tasks: list[asyncio.Task[Any]] = []

    async def measure(self) -> dict[str, Any]:
        began = time.monotonic()
        probes = self._probes()
        self._start(*(probe.run() for probe in probes))
        try:
            await self._all_there(began)
            connect_s = time.monotonic() - began
            await asyncio.sleep(SETTLE_S)
            figures = await self._steady(probes)
            figures |= await self._storm(probes)
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
        return {"n_gpus": self._size.nodes * self._size.gpus, "connect_all_s": connect_s, **figures}

    def _probes(self) -> list[Probe]:
        keys = [
            key
            for key in credentials.decode(self._site.credentials.read_bytes())
            if key.node.startswith("probe-")
        ]
        return [
            Probe(key, self._size.gpus, self._site.agents_url, place / len(keys))
            for place, key in enumerate(keys)
        ]

    def _start(self, *work: Any) -> list[asyncio.Task[Any]]:
        started = [asyncio.create_task(each) for each in work]
        self._tasks += started
        return started

    async def _all_there(self, began: float) -> None:
        """Raises TimeoutError."""
        async with asyncio.timeout(CONNECT_S):
            while not await asyncio.to_thread(self._is_whole):
                await asyncio.sleep(LOOK_S)

    def _is_whole(self) -> bool:
        shown = metrics(self._site)
        nodes, gpus = self._size.nodes, self._size.nodes * self._size.gpus
        return shown["agents"] == nodes and shown["gpus_fresh"] == gpus

    async def _steady(self, probes: Sequence[Probe]) -> dict[str, Any]:
        quiet_s = self._size.duration_s - self._size.watch_s
        tab = Tab(self._site)
        observer = Observer(tab)
        for probe in probes:
            probe.tell = observer.sent
        self._start(tab.run())
        await asyncio.sleep(LOOK_S + 2)
        lines = [stalled(self._site) for _ in range(STALLED)]
        observer.judges, began_bytes = True, tab.bytes
        before, meter = metrics(self._site), Meter(self._site.pids)
        sizes = await self._memory(quiet_s)
        quiet, told = meter.ratios(), metrics(self._site)
        quiet_bytes = (tab.bytes - began_bytes) / quiet_s / 1024

        fills = islice(cycle(FILLS), self._size.watchers)
        crowd = [Tab(self._site, fields) for fields in fills]
        tasks = self._start(*(each.run() for each in crowd))
        await asyncio.sleep(min(5.0, self._size.watch_s / 4))
        counted, meter = [each.bytes for each in crowd], Meter(self._site.pids)
        at = time.monotonic()
        await asyncio.sleep(self._size.watch_s - min(5.0, self._size.watch_s / 4))
        watched, watched_s = meter.ratios(), time.monotonic() - at
        sent = [each.bytes - start for each, start in zip(crowd, counted, strict=True)]
        observer.judges = False
        for task in tasks:
            task.cancel()
        for line in lines:
            line.close()
        return {
            "duration_s": self._size.duration_s,
            "lost_nodes": len(observer.stale_nodes),
            "samples_per_s": (told["samples_total"] - before["samples_total"]) / quiet_s,
            **{f"{name}_core_ratio": value for name, value in quiet.items()},
            "watchers": self._size.watchers,
            "watchers_core_ratio": watched["gateway"] - quiet["gateway"],
            "browser_kib_s": max(quiet_bytes, *(each / watched_s / 1024 for each in sent)),
            "browser_mean_kib_s": sum(sent) / watched_s / 1024 / max(1, len(crowd)),
            **_latency(observer.latencies),
            "latency_samples": len(observer.latencies),
            "frame_gaps": tab.gaps,
            **_growth(sizes),
        }

    async def _memory(self, duration_s: float) -> list[float]:
        """The gateway's, every few seconds."""
        sizes, until = [], time.monotonic() + duration_s
        while (left := until - time.monotonic()) > 0:
            sizes.append(rss_mib(self._site.pids["gateway"]))
            await asyncio.sleep(min(SAMPLE_S, left))
        return sizes

    async def _storm(self, probes: Sequence[Probe]) -> dict[str, Any]:
        """All connections break off at once; until all nodes are connected and fresh again."""
        self._site.storm()
        for probe in probes:
            probe.cut()
        began, pages, welcomes = time.monotonic(), [0.0], -1.0
        meter = Meter(self._site.pids)
        await asyncio.sleep(LOOK_S)
        while time.monotonic() - began < STORM_S:
            for page in PAGES:
                with suppress(OSError):
                    pages.append(await asyncio.to_thread(self._site.get, page))
            if await asyncio.to_thread(self._is_whole):
                welcomes = time.monotonic() - began
                break
            await asyncio.sleep(LOOK_S)
        costs = meter.ratios()
        return {
            **{f"storm_{name}_core_ratio": costs[name] for name in ("gateway", "fleet")},
            "reconnect_all_s": welcomes if welcomes > 0 else float("inf"),
            "storm_page_s": max(pages),
        }


def metrics(place: Site) -> dict[str, float]:
    """The web process's own, without their prefix and labels."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{place.port}/metrics", headers={"Authorization": f"Bearer {TOKEN}"}
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {
        name.split("{")[0].removeprefix("muxflow_web_"): float(value)
        for name, _, value in (line.rpartition(" ") for line in lines if line[:1] not in "#")
    }


def _latency(values: Sequence[float]) -> dict[str, float]:
    if not values:
        return {"latency_p50_s": float("nan"), "latency_p99_s": float("nan")}
    p50, p99 = np.percentile(values, (50, 99))
    return {"latency_p50_s": float(p50), "latency_p99_s": float(p99)}


def _growth(sizes: Sequence[float]) -> dict[str, float]:
    """From the first tenth of the time, the first samples left out, to the last."""
    part = max(1, len(sizes) // 10)
    return {
        "rss_mib": sizes[-1],
        "rss_growth_mib": median(sizes[-part:]) - median(sizes[part : 2 * part] or sizes),
    }


@contextmanager
def fleet(place: Site, size: Size, nodes: int) -> Iterator[int]:
    """Its pid. `agent`: the fake fleet of the agent; `sender`: connections that only speak."""
    if size.fleet == "agent":
        command = [sys.executable, "-m", *place.agents(nodes, size.gpus, size.seed)]
    else:
        command = [
            *(sys.executable, "-m", "tests.benchmarks.telemetry.sender"),
            *(str(place.credentials), place.agents_url, "--seed", str(size.seed)),
            *("--nodes", str(nodes), "--gpus", str(size.gpus)),
        ]
    with (place.folder / "fleet.log").open("ab") as log:
        process = subprocess.Popen(command, cwd=ROOT, stderr=log, preexec_fn=die_with_parent)
    place.storm = (
        (lambda: ask_for_storm(place))
        if size.fleet == "agent"
        else lambda: process.send_signal(signal.SIGUSR1)
    )
    try:
        yield process.pid
    finally:
        process.terminate()
        process.wait()


def ask_for_storm(place: Site) -> None:
    """Through the door that the fake fleet has for faults."""
    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(place.faults))
        line.sendall(faults.encode(faults.Storm()))
        answer = faults.decode_answer(line.makefile("rb").readline())
    assert answer.ok, answer.error
