"""All nodes that this process runs, over one simulated world."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from typing import Final
from uuid import uuid4

import msgspec

from agents import off
from agents.actuators.base import Runtime
from agents.actuators.process import ProcessSettings
from agents.actuators.simulated import MirroredProcessRuntime, SimulatedRuntime
from agents.collectors.simulated import SimulatedCollector
from agents.config import Config
from agents.contention.cluster import build_cluster
from agents.contention.models import model_of
from agents.contention.world import World
from agents.guard import Gpu
from agents.link import Link
from agents.node import Identity, NodeAgent
from agents.state import StateFile
from agents.sysmonitor.signals import GpuFacts
from agents.wire import cluster as cluster_file
from agents.wire import credentials as credentials_file
from agents.wire.cluster import Cluster, ClusterGpu, ClusterNode
from agents.wire.credentials import Credentials
from agents.wire.messages import GpuInventory
from agents.wire.names import RuntimeKind

log = logging.getLogger(__name__)

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class CannotRun(RuntimeError):
    """What was asked for cannot be run; the text says why and what to do."""


class Berth:
    """The place of one node in this process. It can lose its node, and boot it again."""

    def __init__(
        self,
        node: ClusterNode,
        credentials: Credentials,
        config: Config,
        state: StateFile,
        world: World,
    ) -> None:
        self.name = node.name
        self._node, self._credentials, self._config = node, credentials, config
        self._state, self._world = state, world
        self._link_task: asyncio.Task[None] | None = None
        self.agent: NodeAgent | None = None
        self.link: Link | None = None

    def boot(self) -> None:
        """Must be called in a running event loop."""
        identity = Identity(
            self.name,
            self._boot_id(),
            bytes.fromhex(self._credentials.key_hex),
            tuple(_gpu(index, gpu) for index, gpu in enumerate(self._node.gpus)),
        )
        collector = SimulatedCollector(self._world, self.name)
        self.agent = NodeAgent(identity, self._state, collector, self._runtime(), time.monotonic())
        self.link = Link(self._config.console, self._credentials.token, self.name, self.agent)
        self._link_task = asyncio.create_task(self.link.run(), name=f"link of {self.name}")

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

    def _runtime(self) -> Runtime:
        if self._config.runtime is RuntimeKind.SIMULATED:
            return SimulatedRuntime(self._world, self.name)
        settings = ProcessSettings(
            self._config.state_dir / "jobs",
            self._config.default_command,
            self._config.lifeline_fd,
            world_clock=self._config.clock,
        )
        uuids = {index: gpu.uuid for index, gpu in enumerate(self._node.gpus)}
        return MirroredProcessRuntime(settings, uuids, self._world, self.name)

    def _boot_id(self) -> str:
        """Simulated jobs end with this process: for them, its start is the boot of their node."""
        if self._config.runtime is RuntimeKind.PROCESS and BOOT_ID.exists():
            return BOOT_ID.read_text().strip()
        return str(uuid4())


class Fleet:
    """The berths of this process and the world under them."""

    def __init__(
        self, config: Config, cluster: Cluster, keys: dict[str, Credentials], state: StateFile
    ) -> None:
        """Raises CannotRun when a node has no credentials."""
        missing = [node.name for node in cluster.nodes if node.name not in keys]
        if missing:
            raise CannotRun(
                f"{config.credentials} holds no credentials for {', '.join(missing[:5])}"
                f"{' and others' if len(missing) > 5 else ''}: enrol them first"
            )
        self.world = World(cluster, config.seed, config.clock)
        self.world.step(time.monotonic())
        self._state_dir = config.state_dir
        self.switch = off.Switch()
        self._reboots: set[asyncio.Task[None]] = set()
        self.berths = {
            node.name: Berth(node, keys[node.name], config, state, self.world)
            for node in cluster.nodes
        }

    def boot(self) -> None:
        for berth in self.berths.values():
            berth.boot()

    def read_switch(self) -> None:
        self.switch = off.read(self._state_dir)

    def lose(self, name: str, down_s: float) -> None:
        """Raises KeyError for a node that is not here."""
        berth = self.berths[name]
        berth.power_off()
        self.world.lose_node(name)
        task = asyncio.create_task(self._boot_again(berth, down_s))
        self._reboots.add(task)
        task.add_done_callback(self._reboots.discard)

    async def close(self) -> None:
        for task in tuple(self._reboots):
            task.cancel()
        await asyncio.gather(*(berth.unplug() for berth in self.berths.values()))

    async def _boot_again(self, berth: Berth, down_s: float) -> None:
        await asyncio.sleep(down_s)
        self.world.restore_node(berth.name)
        berth.boot()
        log.info("%s: booted again", berth.name)


def load_cluster(config: Config) -> Cluster:
    """The part of the cluster that this process runs. Raises CannotRun."""
    if config.cluster is not None:
        cluster = _read_cluster(config.cluster)
    elif config.simulate is not None:
        cluster = build_cluster(config.simulate.nodes, config.simulate.gpus, config.seed)
    else:
        raise CannotRun("no cluster to take the node from: give --cluster")
    if config.node is not None:
        part = _part(cluster, {config.node})
    else:
        simulated = (node for node in cluster.nodes if node.runtime is RuntimeKind.SIMULATED)
        part = _part(cluster, {node.name for node in simulated})
    if not part.nodes:
        wanted = config.node or "a simulated node"
        raise CannotRun(f"{config.cluster} does not describe {wanted}")
    return part


def load_credentials(path: Path) -> dict[str, Credentials]:
    """By the name of the node. Raises CannotRun."""
    try:
        entries = credentials_file.decode(path.read_bytes())
    except OSError as error:
        raise CannotRun(f"cannot read {path} ({error.strerror}): enrol the node first") from error
    except msgspec.DecodeError as error:
        raise CannotRun(f"{path} is not a credentials file: {error}") from error
    return {entry.node: entry for entry in entries}


def _read_cluster(path: Path) -> Cluster:
    try:
        return cluster_file.decode(path.read_bytes())
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror}") from error
    except msgspec.DecodeError as error:
        raise CannotRun(f"{path} is not a cluster file: {error}") from error


def _part(cluster: Cluster, names: set[str]) -> Cluster:
    """The nodes named, with those instances of services that are on them."""
    services = (
        msgspec.structs.replace(
            service, instances=tuple(one for one in service.instances if one.node in names)
        )
        for service in cluster.services
    )
    return msgspec.structs.replace(
        cluster,
        nodes=tuple(node for node in cluster.nodes if node.name in names),
        services=tuple(service for service in services if service.instances),
    )


def _gpu(index: int, gpu: ClusterGpu) -> Gpu:
    model = model_of(gpu.model)
    inventory = GpuInventory(
        index,
        gpu.uuid,
        gpu.model,
        gpu.memory_bytes,
        sm_clock_max_mhz=model.sm_clock_max_mhz,
        power_limit_w=model.power_limit_w,
    )
    facts = GpuFacts(
        gpu.memory_bytes, model.power_limit_w, model.sm_clock_max_mhz, model.pcie_max_bytes_s
    )
    return Gpu(inventory, facts)
