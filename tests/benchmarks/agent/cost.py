"""What the agent itself takes: CPU time of its process, and its resident memory."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from tests.agents.simulated_node import SimulatedNode


async def core_ratio(node: SimulatedNode, windows: int, window_s: float) -> float:
    """CPU time over time; the median of the windows."""
    (ratio,) = await core_ratios([node.agent.pid], windows, window_s)
    return ratio


async def core_ratios(pids: Sequence[int], windows: int, window_s: float) -> list[float]:
    """Of several processes in the same moments."""
    taken = [await _window(pids, window_s) for _ in range(windows)]
    return [median(each) for each in zip(*taken, strict=True)]


async def cold_factor(turns: int) -> float:
    """How much longer this machine takes for the same Python work after 0.2 s of sleep than at
    once: the agent works in such short turns, and caches belong to others in between."""
    cold_s = warm_s = 0.0
    for _ in range(turns):
        await asyncio.sleep(0.2)
        cold_s += _work_s()
        _work_s()
        warm_s += _work_s()
    return cold_s / warm_s


def _work_s() -> float:
    began = time.thread_time()
    for number in range(40):
        json.loads(json.dumps({"a": [number, {"b": str(Path("c") / "d")}]}))
        re.sub(r"(\w+) (\d+)", r"\2", f"abc {number}")
    return time.thread_time() - began


async def children_core_ratio(node: SimulatedNode, window_s: float) -> float:
    """Of the programs that it starts and waits for: questions to the MPS daemons."""
    before, began = _children_s(node.agent.pid), time.monotonic()
    await asyncio.sleep(window_s)
    return (_children_s(node.agent.pid) - before) / (time.monotonic() - began)


def rss_mib(node: SimulatedNode) -> float:
    lines = Path(f"/proc/{node.agent.pid}/status").read_text().splitlines()
    (resident,) = (line.split()[1] for line in lines if line.startswith("VmRSS:"))
    return int(resident) / 1024


async def _window(pids: Sequence[int], window_s: float) -> list[float]:
    before, began = [_cpu_s(pid) for pid in pids], time.monotonic()
    await asyncio.sleep(window_s)
    passed_s = time.monotonic() - began
    return [(_cpu_s(pid) - at) / passed_s for pid, at in zip(pids, before, strict=True)]


def _cpu_s(pid: int) -> float:
    """Of all its threads, to the nanosecond: what clock_getcpuclockid(3) makes of a PID."""
    return time.clock_gettime((~pid << 3) | 2)


def _children_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
