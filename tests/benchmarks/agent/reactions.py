"""How soon the agent acts when online load rises. Each trial is one rise at a random moment on one
of the GPUs, which take turns as they come; the agent samples as it always does.

What is timed is seen from outside: when the simulated device was sampled, when the online service
made its first launch, and when the job's process says in its control block that it holds its
launches, or that it has been told to end.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from tests.agents.simulated_node import SELDOM_S, SimulatedNode, until

NS_PER_MS = 1e6
# Twice the time between two samples: a rise falls anywhere between them. Evictions are spread out:
# those of eight GPUs in one moment would wait for the cores of this machine.
RISE_PAUSE_S, EVICTION_PAUSE_S = 0.4, 5.0
# So long is a job that is held watched for launches.
WATCHED_S = 0.05


@dataclass
class Times:
    """In ms. `unseen`: the next sample came before this process could ask for the last."""

    freeze: list[float] = field(default_factory=list)
    relief: list[float] = field(default_factory=list)
    sigterm: list[float] = field(default_factory=list)
    unseen: int = 0
    leaked_launches: int = 0

    def add(self, to: list[float], sampled_ns: int, seen_ns: int) -> None:
        if sampled_ns > seen_ns:
            self.unseen += 1
        else:
            to.append((seen_ns - sampled_ns) / NS_PER_MS)


async def measure(node: SimulatedNode, rises: int, evictions: int, seed: int) -> dict[str, object]:
    times, chance = Times(), random.Random(seed)
    await _shared_out(node, rises, lambda gpu: _noise(node, gpu, times, chance))
    await _shared_out(node, evictions, lambda gpu: _overload(node, gpu, times, chance))
    return {
        **_figures("freeze_ms", times.freeze),
        **_figures("overload_to_relief_ms", times.relief),
        **_figures("sigterm_ms", times.sigterm),
        "unseen": times.unseen,
        "leaked_launches": times.leaked_launches,
    }


async def _shared_out(
    node: SimulatedNode, count: int, trial: Callable[[int], Awaitable[None]]
) -> None:
    left = iter(range(count))

    async def on(gpu: int) -> None:
        for _ in left:
            await trial(gpu)

    await asyncio.gather(*(on(gpu) for gpu in range(node.machine.gpus)))


async def _noise(node: SimulatedNode, gpu: int, times: Times, chance: random.Random) -> None:
    """Load that goes as soon as the job is held: it is thawed, and nothing is evicted."""
    await asyncio.sleep(chance.uniform(0.0, RISE_PAUSE_S))
    await _rise(node, gpu, times)
    await node.services[gpu].settle()
    await until(lambda: node.is_calm(gpu), SELDOM_S)


async def _overload(node: SimulatedNode, gpu: int, times: Times, chance: random.Random) -> None:
    """Load that stays: the job is told to end, and another takes its place."""
    await asyncio.sleep(chance.uniform(0.0, EVICTION_PAUSE_S))
    await _rise(node, gpu, times)
    signalled_ns = await until(lambda: node.is_signalled(gpu))
    times.add(times.sigterm, (await node.device(gpu)).sampled_ns, signalled_ns)
    await node.services[gpu].settle()
    await node.place(gpu)


async def _rise(node: SimulatedNode, gpu: int, times: Times) -> None:
    rise_ns = await node.services[gpu].rise()
    held_ns = await until(lambda: node.is_held(gpu))
    device = await node.device(gpu)
    times.add(times.freeze, device.sampled_ns, held_ns)
    times.relief.append((held_ns - rise_ns) / NS_PER_MS)
    await asyncio.sleep(WATCHED_S)
    if node.is_held(gpu):
        times.leaked_launches += (await node.device(gpu)).launches - device.launches


def _figures(name: str, values: list[float]) -> dict[str, float]:
    return {
        f"{name}_p50": percentile(values, 0.50),
        f"{name}_p99": percentile(values, 0.99),
        f"{name}_max": max(values),
        f"{name}_trials": len(values),
    }


def percentile(values: list[float], part: float) -> float:
    """By the nearest rank: one of the values themselves."""
    return sorted(values)[math.ceil(part * len(values)) - 1]
