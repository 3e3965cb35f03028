"""Jobs that live in a `World`, and real ones whose load a world shows."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from agents.actuators.base import Capability, Condition, JobFacts, Limits, StartFailed
from agents.actuators.process import ProcessRuntime
from agents.actuators.recipe import ProcessSettings
from agents.contention.behaviour import behaviour
from agents.contention.world import GpuTaken, UnknownPlacement
from agents.wire.messages import DesiredPlacement
from agents.wire.names import RuntimeKind

if TYPE_CHECKING:
    from agents.contention.jobs import JobView
    from agents.contention.world import World

log = logging.getLogger(__name__)

# Work that no demo lives to see the end of: a mirrored job ends when its process does.
ENDLESS_S: Final = 1e12


class SimulatedRuntime:
    """The jobs of one simulated node. They end with their world, and so with the agent."""

    kind = RuntimeKind.SIMULATED
    capabilities = frozenset(Capability)

    def __init__(self, world: World, node: str) -> None:
        self._world, self._node = world, node
        self._limits: dict[str, Limits] = {}
        # What ended with an earlier life of the node; the world may still know of its job.
        self._lost: set[str] = set()

    def start(self, placement: DesiredPlacement) -> None:
        try:
            _start(self._world, self._node, placement)
        except GpuTaken as taken:
            raise StartFailed(str(taken)) from taken
        self._limits[placement.placement_id] = Limits(
            placement.sm_share_percent, None, placement.memory_quota_bytes
        )

    def adopt(self, placement: DesiredPlacement) -> None:
        self._lost.add(placement.placement_id)

    def observe(self, placement_id: str, now: float) -> JobFacts:
        if placement_id in self._lost:
            return JobFacts(Condition.VANISHED, why="it ended with its node")
        try:
            return _facts(self._world.job(placement_id))
        except UnknownPlacement:
            return JobFacts(Condition.VANISHED, why="the simulated world does not know it")

    def limits(self, placement_id: str) -> Limits:
        return self._limits.get(placement_id, Limits())

    def launches(self, placement_id: str) -> int | None:
        """A simulated job works without any."""
        return None

    def why_no_room(self) -> str:
        return ""

    def beat(self) -> None: ...

    def set_duty(self, placement_id: str, percent: float) -> None:
        self._world.set_duty(placement_id, percent)
        self._limits[placement_id] = replace(self.limits(placement_id), duty_percent=percent)

    def set_memory_quota(self, placement_id: str, memory_quota_bytes: int) -> None:
        before = self.limits(placement_id)
        self._limits[placement_id] = replace(before, memory_quota_bytes=memory_quota_bytes)

    def freeze(self, placement_id: str) -> None:
        self._world.freeze(placement_id)

    def thaw(self, placement_id: str) -> None:
        self._world.thaw(placement_id)

    def sigterm(self, placement_id: str, grace_s: float) -> None:
        self._world.sigterm(placement_id)

    def gate(self, placement_id: str) -> None:
        self._world.gate(placement_id)

    def quiesce(self, placement_id: str) -> None:
        self._world.quiesce(placement_id)

    def release(self, placement_id: str) -> None:
        self._world.release(placement_id)

    def terminate_client(self, placement_id: str) -> None:
        self._world.kill(placement_id)

    def kill(self, placement_id: str) -> None:
        self._world.kill(placement_id)

    def forget(self, placement_id: str) -> None:
        if placement_id in self._limits:
            self._world.forget(placement_id)
        self._limits.pop(placement_id, None)
        self._lost.discard(placement_id)


class MirroredProcessRuntime(ProcessRuntime):
    """Real child processes beside simulated GPU values: a stand-in in the world carries the load
    of each, so that the values answer to it."""

    def __init__(
        self, settings: ProcessSettings, gpu_uuids: Mapping[int, str], world: World, node: str
    ) -> None:
        super().__init__(settings, gpu_uuids)
        self._world, self._node = world, node
        self._mirrored: set[str] = set()

    def start(self, placement: DesiredPlacement) -> None:
        super().start(placement)
        self._mirror(placement)

    def adopt(self, placement: DesiredPlacement) -> None:
        super().adopt(placement)
        self._mirror(placement)

    def observe(self, placement_id: str, now: float) -> JobFacts:
        facts = super().observe(placement_id, now)
        gone = facts.condition not in (Condition.STARTING, Condition.ALIVE)
        if gone and placement_id in self._mirrored:
            self._mirrored.discard(placement_id)
            self._world.kill(placement_id)
        return facts

    def set_duty(self, placement_id: str, percent: float) -> None:
        super().set_duty(placement_id, percent)
        if self._shows(placement_id, Capability.DUTY):
            self._world.set_duty(placement_id, percent)

    def freeze(self, placement_id: str) -> None:
        super().freeze(placement_id)
        if self._shows(placement_id, Capability.FREEZE):
            self._world.freeze(placement_id)

    def thaw(self, placement_id: str) -> None:
        super().thaw(placement_id)
        if self._shows(placement_id, Capability.FREEZE):
            self._world.thaw(placement_id)

    def forget(self, placement_id: str) -> None:
        super().forget(placement_id)
        self._world.forget(placement_id)

    def _shows(self, placement_id: str, capability: Capability) -> bool:
        """What does not reach the process must not show in the values either."""
        return placement_id in self._mirrored and capability in self.capabilities

    def _mirror(self, placement: DesiredPlacement) -> None:
        """Without a stand-in the process runs all the same; only the values do not show it."""
        profile = msgspec.structs.replace(placement.profile, work_s=ENDLESS_S)
        try:
            _start(self._world, self._node, msgspec.structs.replace(placement, profile=profile))
        except ValueError as error:
            log.warning("no load is shown for %s: %s", placement.placement_id, error)
            return
        self._mirrored.add(placement.placement_id)


def _start(world: World, node: str, placement: DesiredPlacement) -> None:
    """Raises GpuTaken."""
    world.start(
        world.index(node, placement.gpu_index),
        placement.placement_id,
        behaviour(placement.profile, placement.command),
        placement.sm_share_percent,
        placement.memory_quota_bytes,
        placement.checkpoint,
        placement.checkpoint_period_s,
        placement.resume_work_s,
    )


def _facts(job: JobView) -> JobFacts:
    return JobFacts(
        Condition.ALIVE if job.alive else Condition.EXITED,
        exit_code=job.exited,
        memory_bytes=job.memory_bytes,
        progress=job.progress,
        work_done_s=job.work_done_s,
        unsaved_work_s=job.unsaved_work_s,
        normalised_throughput=job.throughput,
        checkpointed=job.checkpointed,
        gated=job.gated,
        quiesced=job.quiesced,
        released=job.released,
        step_s=job.step_s,
    )
