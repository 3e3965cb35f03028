"""All nodes that this process runs, over one simulated world."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from agents import off
from agents.actuators import house
from agents.actuators.base import Runtime
from agents.actuators.simulated import MirroredProcessRuntime, SimulatedRuntime
from agents.alarm import Alarm
from agents.berth import Berth, Equipment, need
from agents.collectors.simulated import SimulatedCollector
from agents.config import CannotRun, Config
from agents.contention import curves
from agents.contention.cluster import build_cluster
from agents.contention.curves import Curves
from agents.contention.models import model_of
from agents.contention.world import World
from agents.faults_server import serve_faults
from agents.guard import Gpu
from agents.mischief import Mischief
from agents.state import StateFile
from agents.sysmonitor.signals import GpuFacts
from agents.wire import cluster as cluster_file
from agents.wire.cluster import Cluster, ClusterGpu, ClusterNode
from agents.wire.credentials import Credentials
from agents.wire.messages import GpuInventory
from agents.wire.names import RuntimeKind

log = logging.getLogger(__name__)


class Fleet:
    """The berths of this process and the world under them."""

    def __init__(
        self, config: Config, cluster: Cluster, keys: dict[str, Credentials], state: StateFile
    ) -> None:
        """Raises CannotRun when a node has no credentials, and for a load file that is none."""
        need((node.name for node in cluster.nodes), keys, config.credentials)
        self.world = World(cluster, config.seed, config.clock, _curves(config.load))
        self.world.step(time.monotonic())
        self._config = config
        self.switch, self.alarm = off.Switch(), Alarm()
        # The world is stepped by the loop.
        self.is_at_rest = False
        self.mischief = Mischief()
        self._reboots: set[asyncio.Task[None]] = set()
        self._faults: asyncio.Server | None = None
        self.berths: Mapping[str, Berth] = {
            node.name: self._berth(node, keys[node.name], state) for node in cluster.nodes
        }

    def _berth(self, node: ClusterNode, key: Credentials, state: StateFile) -> Berth:
        return Berth(key, self._config, state, partial(self._equip, node))

    def boot(self) -> None:
        for berth in self.berths.values():
            berth.boot()

    async def open(self) -> None:
        """Lets itself be asked for faults where that is wanted. Raises OSError."""
        if self._config.faults is not None:
            self._faults = await serve_faults(self._config.faults, self)

    def step(self, now: float) -> None:
        self.world.step(now)

    def settle(self, now: float) -> None: ...

    def read_switch(self) -> None:
        self.switch = off.read(self._config.state_dir)

    def lose(self, name: str, down_s: float) -> None:
        """Raises KeyError for a node that is not here."""
        berth = self.berths[name]
        berth.power_off()
        self.world.lose_node(name)
        task = asyncio.create_task(self._boot_again(berth, down_s))
        self._reboots.add(task)
        task.add_done_callback(self._reboots.discard)

    async def close(self) -> None:
        if self._faults is not None:
            self._faults.close()
        self.mischief.end()
        for task in tuple(self._reboots):
            task.cancel()
        await asyncio.gather(*(berth.unplug() for berth in self.berths.values()))

    def _equip(self, node: ClusterNode) -> Equipment:
        return Equipment(
            tuple(gpu_of(index, gpu) for index, gpu in enumerate(node.gpus)),
            SimulatedCollector(self.world, node.name),
            self._runtime(node),
            cpu_cores=node.cpu_cores,
            host_memory_bytes=node.host_memory_bytes,
        )

    def _runtime(self, node: ClusterNode) -> Runtime:
        if self._config.runtime is RuntimeKind.SIMULATED:
            return SimulatedRuntime(self.world, node.name)
        settings = house.settings(self._config, len(node.gpus))
        uuids = {index: gpu.uuid for index, gpu in enumerate(node.gpus)}
        return MirroredProcessRuntime(settings, uuids, self.world, node.name)

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


def _curves(path: Path | None) -> Curves | None:
    """Raises CannotRun."""
    try:
        return None if path is None else curves.read(path.read_text())
    except OSError as error:
        raise CannotRun(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise CannotRun(f"{path}: {error}") from error


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


def gpu_of(index: int, gpu: ClusterGpu) -> Gpu:
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
