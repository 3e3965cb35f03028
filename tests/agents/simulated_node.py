"""A node of simulated GPUs with its agent, a console that it talks to, an online service on each
GPU and an offline job on each: all of them real processes."""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from agents.control_block import ControlBlock, Mode, Process
from agents.wire.ids import uuid7
from agents.wire.messages import DesiredGpu, DesiredPlacement
from agents.wire.names import GpuState, PlacementState, SharingMode, Signal
from agents.wire.policy import AgentPolicy, Threshold
from tests.agents.cast import desired, placement
from tests.agents.fake_console import FakeConsole
from tests.agents.simulated_machine import SimulatedMachine, processes
from tests.agents.xcuda.running import ROOT

# The limits of the preset Balanced for the one signal that is driven here, with short times.
POLICY: Final = AgentPolicy(
    policy_id=1,
    version=1,
    name="standard",
    thresholds={Signal.SM_ACTIVITY: Threshold(85.0, 95.0, 1.0, 3.0, required=True)},
    cooldown_s=1.0,
    cooldown_max_s=1.0,
    grace_s=2.0,
)
# One launch at a time, each of 5 ms on the whole GPU.
JOB: Final = "exec $programs/loop launch-sync --kernel step_5000us --grid 1000 --seconds 3600"
WHOLE_GPU_BLOCKS: Final = 1_000
SURGE: Final = Path(__file__).with_name("surge.py")
# How often is looked: for a moment that is timed, and for others.
OFTEN_S, SELDOM_S = 0.0005, 0.05
PATIENCE_S: Final = 60.0


@dataclass(frozen=True)
class Device:
    """When the agent last sampled it, in ns; what the job on it has launched."""

    sampled_ns: int
    launches: int


@dataclass
class Service:
    """The online service of one GPU. Its kernels are two at a time, of `blocks` thread blocks; a
    thousand are the whole GPU, and with none it idles."""

    machine: SimulatedMachine
    gpu: int
    usual_blocks: int = 0

    def __post_init__(self) -> None:
        python = [sys.executable, str(SURGE)]
        self._process = self.machine.start_online(self.gpu, python, PYTHONPATH=str(ROOT))

    async def rise(self, blocks: int = WHOLE_GPU_BLOCKS) -> int:
        """When the first launch was made, in ns."""
        return await self._work(blocks)

    async def settle(self) -> None:
        """Back to what is usual."""
        await self._work(self.usual_blocks)

    async def _work(self, blocks: int) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{blocks}\n")
        self._process.stdin.flush()
        return int(await asyncio.to_thread(self._process.stdout.readline))


@dataclass
class SimulatedNode:
    """The whole of it."""

    machine: SimulatedMachine
    console: FakeConsole
    services: list[Service]
    agent: subprocess.Popen[str]
    policy: AgentPolicy = POLICY
    placements: dict[int, DesiredPlacement] = field(default_factory=dict)
    _blocks: dict[str, ControlBlock] = field(default_factory=dict)
    _generation: int = 1

    async def share(self) -> None:
        """Every GPU may take work, and does not yet have any."""
        await self._order()
        await until(
            lambda: (
                self.console.statuses
                and all(
                    gpu.state is GpuState.HEALTHY and not gpu.unshareable_fact
                    for gpu in self.console.status.gpus
                )
            ),
            SELDOM_S,
        )

    async def place(self, gpu: int, words: str = JOB) -> None:
        """A new job, under a new name; returns when it runs."""
        self.placements[gpu] = placement(
            placement_id=str(uuid7()),
            job_id=str(gpu),
            gpu_index=gpu,
            command=self.machine.command(words),
        )
        await self._order()
        await until(lambda: self.is_calm(gpu), SELDOM_S)

    def is_calm(self, gpu: int) -> bool:
        """The job runs, launches, and nothing is held against it any more."""
        process = self.process(gpu)
        running = any(
            one.placement_id == self.placements[gpu].placement_id
            and one.state is PlacementState.RUNNING
            for one in self.console.status.placements
        )
        healthy = self.console.status.gpus[gpu].state is GpuState.HEALTHY
        return (
            running
            and healthy
            and process is not None
            and process.mode in (Mode.RUN, Mode.THROTTLE)
        )

    def is_held(self, gpu: int) -> bool:
        process = self.process(gpu)
        return process is not None and process.mode is Mode.FREEZE

    def is_signalled(self, gpu: int) -> bool:
        process = self.process(gpu)
        return process is None or process.phase is not None

    def process(self, gpu: int) -> Process | None:
        """The job's first, as its control block has it."""
        block = self.block(gpu)
        return None if block is None else next(iter(processes(block)), None)

    def block(self, gpu: int) -> ControlBlock | None:
        """The job's, once it is there."""
        placement_id = self.placements[gpu].placement_id
        if placement_id not in self._blocks:
            block = self.machine.block(placement_id)
            if block is None:
                return None
            self._blocks[placement_id] = block
        return self._blocks[placement_id]

    async def device(self, gpu: int) -> Device:
        """The simulated device, now."""
        told = await asyncio.to_thread(self.machine.server(gpu).report)
        job = self.process(gpu)
        launches = (one["launches"] for one in told["clients"] if job and one["pid"] == job.pid)
        return Device(int(told["sampled_ns"]), next(launches, 0))

    async def _order(self) -> None:
        self._generation += 1
        gpus = range(self.machine.gpus)
        await self.console.desire(
            desired(
                *self.placements.values(),
                generation=self._generation,
                gpus=tuple(DesiredGpu(gpu, SharingMode.ENFORCE, "standard") for gpu in gpus),
                policies={"standard": self.policy},
            )
        )


@contextlib.asynccontextmanager
async def simulated_node(
    folder: Path, gpus: int, policy: AgentPolicy = POLICY, usual_blocks: int = 0
) -> AsyncIterator[SimulatedNode]:
    """Everything is there and talks; no GPU is shared yet. `usual_blocks` of each service's kernels
    are what it works with when nothing rises."""
    with contextlib.closing(SimulatedMachine(folder, gpus)) as machine:
        machine.start_daemons()
        services = [Service(machine, gpu, usual_blocks) for gpu in range(gpus)]
        for service in services:
            await service.settle()
        async with FakeConsole() as console:
            agent = machine.start_agent(console.url, "--log-level", "WARNING")
            await until(lambda: console.hellos)
            yield SimulatedNode(machine, console, services, agent, policy)
            agent.terminate()
            await asyncio.to_thread(agent.wait)


async def until(fact: Callable[[], object], every_s: float = OFTEN_S) -> int:
    """The moment at which it was seen to be true, in ns of CLOCK_MONOTONIC."""
    deadline = time.monotonic() + PATIENCE_S
    while not fact():
        if time.monotonic() > deadline:
            raise TimeoutError("this machine is too busy, or the agent does not do what it should")
        await asyncio.sleep(every_s)
    return time.monotonic_ns()
