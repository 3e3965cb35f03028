"""`make bench-agent`: what the agent costs, and how soon it acts.

A real agent process on eight simulated GPUs (`docs/xcuda-stub.md`), read through nvidia-ml-py five
times a second; the console that it tells of them once a second is on the loopback. The online
service of each GPU uses two fifths of it, and all of it when its load rises.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.agents.simulated_machine import SimulatedMachine
from tests.agents.simulated_node import simulated_node
from tests.agents.xcuda.running import BUILD, ROOT, build
from tests.benchmarks.agent import bare, cost, reactions
from tests.benchmarks.report import Goal, show

# Two kernels of so many blocks have two fifths of a GPU: what its service uses when nothing rises.
USUAL_BLOCKS = 200
GOALS = (
    Goal("cpu_core_ratio", "CPU time of the agent, of one core", most=0.01),
    Goal("rss_mib", "resident memory of the agent, MiB", most=60),
    Goal("freeze_ms_p99", "sample over the limit to launches held, p99, ms", most=20),
    Goal("sigterm_ms_p99", "sample that completes the dwell to signalled, p99, ms", most=100),
    Goal("overload_to_relief_ms_p99", "rise of online load to launches held, p99, ms", most=400),
    Goal("leaked_launches", "launches of a job that is held", most=0, least=0),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=8, help="of the node (8)")
    parser.add_argument("--windows", type=int, default=5, help="of CPU time (5)")
    parser.add_argument("--window-s", type=float, default=6.0, help="how long each is (6)")
    parser.add_argument("--rises", type=int, default=160, help="that go again at once (160)")
    parser.add_argument("--evictions", type=int, default=48, help="rises that stay (48)")
    parser.add_argument("--seed", type=int, default=1, help="of the random moments (1)")
    chosen = parser.parse_args()
    build("lib", "stub", "programs", BUILD / "mps-report")
    with tempfile.TemporaryDirectory() as folder:
        show(asyncio.run(measure(Path(folder), chosen)), GOALS)


class Bare:
    """A process that does nothing but read the GPUs as often: what no agent in Python can stay
    below on this machine, in the same moments."""

    def __init__(self, machine: SimulatedMachine) -> None:
        path = {"PYTHONPATH": str(ROOT)}
        self._process = machine.start(
            [sys.executable, bare.__file__], preload=False, env=machine.variables | path
        )
        self.pid = self._process.pid

    async def late_ms(self) -> list[float]:
        """How long each answer took since this was asked last, with the wait for a core."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        told: list[float] = json.loads(await asyncio.to_thread(self._process.stdout.readline))
        return told


async def measure(folder: Path, chosen: argparse.Namespace) -> Mapping[str, Any]:
    async with simulated_node(folder, chosen.gpus, usual_blocks=USUAL_BLOCKS) as node:
        await node.share()
        beside = Bare(node.machine)
        pids = [node.agent.pid, beside.pid]
        watching, bare_ratio = await cost.core_ratios(pids, chosen.windows, chosen.window_s)
        cold_factor = await cost.cold_factor(int(5 * chosen.window_s))
        children = await cost.children_core_ratio(node, 4 * chosen.window_s)
        await asyncio.gather(*(node.place(gpu) for gpu in range(chosen.gpus)))
        working = await cost.core_ratio(node, 1, 2 * chosen.window_s)
        await beside.late_ms()
        reacted = await reactions.measure(node, chosen.rises, chosen.evictions, chosen.seed)
        late_ms = await beside.late_ms()
        return {
            "n_gpus": chosen.gpus,
            "cpu_core_ratio": watching,
            "bare_core_ratio": bare_ratio,
            "cold_factor": cold_factor,
            "cpu_core_ratio_with_jobs": working,
            "children_core_ratio": children,
            "rss_mib": cost.rss_mib(node),
            **reacted,
            "bare_late_ms_p50": reactions.percentile(late_ms, 0.50),
            "bare_late_ms_p99": reactions.percentile(late_ms, 0.99),
        }


if __name__ == "__main__":
    main()
