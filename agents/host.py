"""This machine as one node: its own GPUs, its own processes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence

from agents import off
from agents.actuators import house
from agents.actuators.process import ProcessRuntime
from agents.alarm import Alarm
from agents.berth import Berth, Equipment, boot_id, need
from agents.collectors import dcgm
from agents.collectors.attribution import OfflineJob, nobody
from agents.collectors.base import Collector, Source, Unavailable
from agents.collectors.card import Card, judged
from agents.collectors.gpm import GpmSource
from agents.collectors.nvml import Nvml, PcieSource, SignalSource
from agents.collectors.processes import ProcessSource
from agents.collectors.real import RealCollector
from agents.collectors.replay import Recorder, ReplayCollector
from agents.collectors.services import ServiceSource
from agents.collectors.xcuda import Block, XcudaSource
from agents.config import CannotRun, Config, GpuValues
from agents.containment import Containment
from agents.guard import Gpu
from agents.kubernetes import source as kubernetes
from agents.kubernetes.source import KubernetesSource
from agents.mps import daemons
from agents.mps.acquaintances import Acquaintances
from agents.mps.daemons import Daemons, GpuHands
from agents.mps.hooks import RestartHooks
from agents.mps.keep import Keep
from agents.mps.side import NodeMps
from agents.mps.unit import place_of
from agents.mps.witnesses import Witnesses
from agents.state import StateFile
from agents.wire.credentials import Credentials
from agents.wire.messages import DesiredService

log = logging.getLogger(__name__)


def own_cards() -> tuple[Card, ...]:
    """The GPUs of this machine, as its driver tells them. Raises CannotRun."""
    try:
        nvml = Nvml()
        cards = nvml.cards()
        nvml.close()
    except Unavailable as error:
        raise CannotRun(str(error)) from error
    return cards


class Host:
    """One node, and the collector that stays open as long as this process."""

    def __init__(self, config: Config, keys: Mapping[str, Credentials], state: StateFile) -> None:
        """Raises CannotRun when the node has no credentials or its GPUs cannot be read."""
        name = config.node or ""
        need([name], keys, config.credentials)
        self.switch = off.Switch()
        self._config, self._contained = config, Containment(name)
        self._keep = Keep(state, name, boot_id(config.runtime))
        self._witnesses, self._acquaintances = Witnesses(), Acquaintances()
        self._jobs: Sequence[OfflineJob] = ()
        self._shares: Mapping[str, float] = {}
        # None: nobody is asked, as of a recording.
        self._real: RealCollector | None = None
        self._goes_on_alone = False
        self.alarm = Alarm()
        self._services: Sequence[DesiredService] = ()
        self._daemons = Daemons(())
        self._runtime: ProcessRuntime | None = None
        self._blocks: Sequence[Block] = ()
        try:
            self._cards, self._collector = self._opened()
        except (Unavailable, OSError) as error:
            raise CannotRun(str(error)) from error
        self._settings = house.settings(config, len(self._cards))
        self._berth = Berth(keys[name], config, state, self._equip, self.alarm)
        self.berths = {name: self._berth}

    def boot(self) -> None:
        self._berth.boot()

    async def open(self) -> None:
        self._daemons.start()

    def step(self, now: float) -> None: ...

    def settle(self, now: float) -> None:
        """Tells the collector's threads what runs and what should, as they never touch the agent,
        and lets those work that had to wait for the sample."""
        self._daemons.ring()
        with self._contained:
            self._follow_agent(now)
        with self._contained:
            self._listen_to_jobs()
        if self._real is not None:
            self._real.ask_others(now)
        self._rest()

    @property
    def is_at_rest(self) -> bool:
        agent = self._berth.agent
        return agent is not None and agent.rests and agent.may_rest

    def _rest(self) -> None:
        """Begins once the collector has gone on by itself from one sample: what is recorded is
        recorded as it is asked for."""
        agent = self._berth.agent
        if agent is None or self._real is None or self._config.recording is not None:
            return
        may_rest = agent.may_rest
        agent.rests = may_rest and self._goes_on_alone
        self._goes_on_alone = self._real.go_on_alone(may_rest)

    def read_switch(self) -> None:
        self.switch = off.read(self._config.state_dir)

    async def close(self) -> None:
        await self._berth.unplug()
        self._daemons.stop()
        self._collector.close()

    def _follow_agent(self, now: float) -> None:
        agent = self._berth.agent
        if agent is None:
            return
        self._services = agent.services()
        jobs = agent.offline_jobs()
        self._acquaintances.note(jobs, now)
        if jobs != self._jobs:
            self._jobs = jobs
            self._shares = {job.placement_id: job.sm_share_percent for job in jobs}

    def _listen_to_jobs(self) -> None:
        told = {} if self._runtime is None else self._runtime.statements()
        if told or self._blocks:
            self._witnesses.note(told, time.time())
            self._blocks = [Block(one, gpu, said) for one, (gpu, said) in told.items()]

    def _opened(self) -> tuple[tuple[Card, ...], Collector]:
        """Raises Unavailable, OSError."""
        recording = self._config.recording
        if self._config.gpus is GpuValues.REPLAY and recording is not None:
            replay = ReplayCollector(recording)
            return replay.cards, replay
        nvml = Nvml()
        cards = judged(nvml.cards(), sm_activity_elsewhere=bool(self._config.dcgm))
        root = self._config.mps_dir
        self._daemons = daemons.at([place_of(card.uuid, root) for card in cards if card.is_named])
        collector = RealCollector(cards, self._lanes(nvml, cards), lambda: self._shares)
        self._real = collector
        if recording is None:
            return cards, collector
        return cards, Recorder(collector, cards, recording)

    def _lanes(self, nvml: Nvml, cards: Sequence[Card]) -> list[list[Source]]:
        """In the order of preference; behind one door, one lane. Raises Unavailable."""
        uuids = {card.index: card.uuid for card in cards}
        lanes: list[list[Source]] = [[SignalSource(nvml), GpmSource(nvml)]]
        if self._config.dcgm:
            lanes.append([dcgm.source(self._config.dcgm)])
        if not all(card.gpm for card in cards):
            lanes.append([PcieSource(nvml)])
        pods = kubernetes.source(self._config) if self._config.kubernetes else None
        lanes.append([self._processes(nvml, pods)])
        if pods is not None:
            lanes.append([pods])
        if self._config.xcuda is not None:
            lanes.append([XcudaSource(lambda: self._blocks, uuids)])
        lanes.append([ServiceSource(lambda: self._services, uuids)])
        return lanes

    def _processes(self, nvml: Nvml, pods: KubernetesSource | None) -> ProcessSource:
        workloads = nobody if pods is None else pods.workload
        return ProcessSource(nvml, lambda: self._jobs, self._daemons, workloads=workloads)

    def _equip(self) -> Equipment:
        self._runtime = self._new_runtime()
        return Equipment(
            tuple(Gpu(card.inventory, card.facts) for card in self._cards),
            self._collector,
            self._runtime,
            self._mps(),
            float(os.cpu_count() or 0) or None,
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        )

    def _new_runtime(self) -> ProcessRuntime:
        uuids = {card.index: card.uuid for card in self._cards}
        shared = any(uuid in self._daemons for uuid in uuids.values())
        return ProcessRuntime(self._settings, uuids, self._daemons if shared else None)

    def _mps(self) -> NodeMps:
        """Of the cards whose daemons are watched: none in a recording."""
        cards = {card.index: card for card in self._cards if card.uuid in self._daemons}
        hooks = RestartHooks(self._config.restart_hooks, folder=self._config.state_dir)
        return NodeMps(
            cards,
            self._daemons.snapshot,
            lambda card: self._hands(card, hooks),
            job_uid=self._settings.job_uid,
            witnesses=self._witnesses.of_gpu,
            services=self._service_names,
            keep=self._keep,
            looks=lambda: self._daemons.looks,
            named=self._acquaintances.named,
        )

    def _service_names(self, index: int) -> list[str]:
        return [one.name for one in self._services if one.gpu_index == index]

    def _hands(self, card: Card, hooks: RestartHooks) -> GpuHands:
        return GpuHands(
            self._daemons.watcher(card.uuid),
            lambda: self._service_names(card.index),
            hooks,
            log.error,
            lambda why: self._quarantine(card.index, why),
        )

    def _quarantine(self, index: int, why: str) -> None:
        if self._berth.agent is not None:
            self._berth.agent.quarantine(index, why)
