"""The place of one node in this process: its agent and its link, booted and lost together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeAlias
from uuid import uuid4

import msgspec

from agents import tls
from agents.actuators.base import Runtime
from agents.alarm import Alarm
from agents.collectors.base import Collector
from agents.config import CannotRun, Config
from agents.containment import Containment
from agents.guard import Gpu
from agents.link import Link
from agents.mps.side import MpsSide
from agents.node import Identity, NodeAgent
from agents.ring import Ring, folder_of
from agents.settings import files
from agents.state import StateFile
from agents.wire import credentials as credentials_file
from agents.wire.credentials import Credentials
from agents.wire.messages import PackedTelemetry
from agents.wire.names import RuntimeKind

Twist: TypeAlias = Callable[[PackedTelemetry], PackedTelemetry]

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True)
class Equipment:
    """What a node is made of, fresh at each boot."""

    gpus: tuple[Gpu, ...]
    collector: Collector
    runtime: Runtime
    mps: MpsSide | None = None
    cpu_cores: float | None = None
    host_memory_bytes: int | None = None


class Berth:
    """It can lose its node, and boot it again."""

    def __init__(
        self,
        credentials: Credentials,
        config: Config,
        state: StateFile,
        equip: Callable[[], Equipment],
        alarm: Alarm | None = None,
    ) -> None:
        """`alarm` as for `NodeAgent`. Raises CannotRun when the certificates it is to use cannot
        be."""
        self.name = credentials.node
        # A defect that shows on one node does not leave the others unguarded.
        self.contained = Containment(self.name, "a step of its loop")
        self._credentials, self._config, self._state = credentials, config, state
        self._equip, self._alarm = equip, alarm
        self._tls = tls.context(config) if config.console.startswith("wss://") else None
        self._ring_folder = folder_of(config.state_dir, self.name)
        self._link_task: asyncio.Task[None] | None = None
        # By how much its clock is ahead: a fault of a simulated node.
        self.skew_s = 0.0
        # What a fault of a simulated node makes of its telemetry.
        self.twist: Twist | None = None
        self.agent: NodeAgent | None = None
        self.link: Link | None = None

    def boot(self) -> None:
        """Must be called in a running event loop."""
        equipment = self._equip()
        ceiling = self._config.sharing_ceiling
        identity = Identity(
            self.name,
            boot_id(self._config.runtime),
            bytes.fromhex(self._credentials.key_hex),
            tuple(replace(gpu, ceiling=ceiling) for gpu in equipment.gpus),
            equipment.cpu_cores,
            equipment.host_memory_bytes,
        )
        self.agent = self._new_agent(identity, equipment)
        self.link = self._new_link(self.agent)
        self.link.twisted = self._twisted
        self._link_task = asyncio.create_task(self.link.run(), name=f"link of {self.name}")

    def _new_agent(self, identity: Identity, equipment: Equipment) -> NodeAgent:
        return NodeAgent(
            identity,
            self._state,
            equipment.collector,
            equipment.runtime,
            time.monotonic(),
            self.wall,
            equipment.mps,
            self._alarm,
            Ring(self._ring_folder, (gpu.inventory.uuid for gpu in equipment.gpus)),
        )

    def _new_link(self, agent: NodeAgent) -> Link:
        return Link(self._config.console, self._credentials.token, self.name, agent, self._tls)

    def wall(self) -> float:
        """The node's clock, Unix seconds."""
        return time.time() + self.skew_s

    def _twisted(self, telemetry: PackedTelemetry) -> PackedTelemetry:
        return telemetry if self.twist is None else self.twist(telemetry)

    def power_off(self) -> None:
        """The node is gone between two instructions: its agent sees nothing more, not even that
        its jobs are gone too."""
        if self.link is not None:
            self.link.cut(0.0)
        if self._link_task is not None:
            self._link_task.cancel()
        self.agent = self.link = None

    async def unplug(self) -> None:
        """Ends the connection; the jobs are left as they are."""
        if self._link_task is not None:
            self._link_task.cancel()
            await asyncio.gather(self._link_task, return_exceptions=True)
        if self.agent is not None:
            self.agent.close()


def boot_id(runtime: RuntimeKind) -> str:
    """Simulated jobs end with this process: for them, its start is the boot of their node."""
    if runtime is RuntimeKind.PROCESS and BOOT_ID.exists():
        return BOOT_ID.read_text().strip()
    return str(uuid4())


def load_credentials(path: Path) -> dict[str, Credentials]:
    """By the name of the node. Raises CannotRun."""
    if path.exists() and (sentence := files.why_not_trusted(path)):
        raise CannotRun(sentence)
    try:
        entries = credentials_file.decode(path.read_bytes())
    except OSError as error:
        raise CannotRun(f"cannot read {path} ({error.strerror}): enrol the node first") from error
    except msgspec.DecodeError as error:
        raise CannotRun(f"{path} is not a credentials file: {error}") from error
    return {entry.node: entry for entry in entries}


def need(names: Iterable[str], keys: Mapping[str, Credentials], where: Path) -> None:
    """Raises CannotRun when a node has no credentials among those read from `where`."""
    missing = [name for name in names if name not in keys]
    if missing:
        raise CannotRun(
            f"{where} holds no credentials for {', '.join(missing[:5])}"
            f"{' and others' if len(missing) > 5 else ''}: enrol them first"
        )
