"""One GPU as a node with MPS has it: a control daemon of our own, an online and an offline client.

All that the agent reads is read through the agent's own collectors, and all that MPS is asked
through its own control.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agents.control_block import ControlBlock, Limits
from tests.gpu.client import Client
from tests.gpu.figure import Missing
from tests.gpu.machine import Machine

if TYPE_CHECKING:
    from agents.collectors.base import GpuReading, NodeReading, Source
    from agents.collectors.card import Card
    from agents.collectors.nvml import Nvml
    from agents.mps.control import Control
    from agents.mps.daemons import Daemons

PLACEMENT_ID = "the offline client"
SHARE_PERCENT = 40.0
# As a job has one at all times; xCUDA counts busy time only while it does.
DUTY_PERMILLE = 800
QUOTA_BYTES = 4 << 30
# At five samples a second: long enough for what is asked once a second to have been asked twice.
LOOK_S, SAMPLE_S = 4.0, 0.2
# What nothing here may change.
SETTINGS = (
    "nvmlDeviceGetComputeMode",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetPersistenceMode",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetAccountingMode",
)


@dataclass
class SharedGpu:
    """The first GPU of the machine; each part is missing until its step has made it."""

    machine: Machine
    before: dict[str, str] = field(default_factory=dict)
    _nvml: Nvml | None = None
    _control: Control | None = None
    _daemons: Daemons | None = None
    clients: dict[str, Client] = field(default_factory=dict)
    block: ControlBlock | None = None
    reading: GpuReading | None = None

    # --- NVML ------------------------------------------------------------------------------

    @property
    def nvml(self) -> Nvml:
        """Raises Missing without the agent's packages or without NVML."""
        if self._nvml is None:
            self._nvml = self._opened()
        return self._nvml

    def _opened(self) -> Nvml:
        try:
            from agents.collectors.base import Unavailable
            from agents.collectors.nvml import Nvml
        except ImportError as error:
            raise Missing(f"{error}: pip install -r requirements/agent.txt") from error
        if self.machine.stub:
            self._load_stub()
        nvml = Nvml()
        try:
            nvml.devices()
        except Unavailable as error:
            raise Missing(str(error)) from error
        return nvml

    def _load_stub(self) -> None:
        """Whoever opens NVML in this process from here on gets the stand-in."""
        library = self.machine.built / "stub" / "libnvidia-ml.so.1"
        if not library.exists():
            raise Missing("nothing was built")
        os.environ |= {
            "STUB_MPS": str(self.machine.folder / "gpu"),
            "STUB_TIME": "1",
            "STUB_MPS_REPORT": str(self.machine.built / "mps-report"),
        }
        ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)

    @property
    def card(self) -> Card:
        """Raises Missing without a GPU."""
        cards = self.nvml.cards()
        if not cards:
            raise Missing("the driver knows of no GPU")
        return cards[0]

    def settings(self) -> dict[str, str]:
        """Of the GPU, by the call that tells; what this driver does not tell is left out."""
        device = self.nvml.devices()[0]
        answers = {name: self.nvml.ask(device, name) for name in SETTINGS}
        return {name: str(answer) for name, answer in answers.items() if answer is not None}

    # --- MPS -------------------------------------------------------------------------------

    @property
    def control(self) -> Control:
        if self._control is None:
            raise Missing("no control daemon was started")
        return self._control

    @property
    def program(self) -> str:
        """Raises Missing where MPS is not installed."""
        if self.machine.stub:
            from agents.stub import mps_daemon

            return str(mps_daemon.write_program(self.machine.folder))
        found = shutil.which("nvidia-cuda-mps-control")
        if found is None:
            raise Missing("no nvidia-cuda-mps-control (it comes with the NVIDIA driver)")
        return found

    def start_daemon(self) -> int:
        """In a session of its own and with directories of its own, watched as the agent watches
        it; returns its pid."""
        from agents.mps import unit
        from agents.mps.control import Control
        from agents.mps.daemons import Daemons

        control = Control(unit.place_of(self.card.uuid, self.machine.folder), (self.program,))
        daemon = unit.start_detached(control.place, control.program)
        self._control, self._daemons = control, Daemons([control])
        self._daemons.start()
        return daemon.pid

    def quit_daemon(self) -> None:
        from agents.mps import unit

        control, self._control = self.control, None
        if self._daemons is not None:
            self._daemons.stop()
        unit.stop(control)

    # --- its clients -----------------------------------------------------------------------

    def start_online(self) -> Client:
        """Some requests a second."""
        return self._started("online", "latency", self.control.place.environment())

    def start_offline(self) -> Client:
        """Kernel after kernel, under xCUDA, with the limits of a job."""
        from agents.mps.client import ClientLimits, environment

        limits = environment(self.control.place, ClientLimits(SHARE_PERCENT, QUOTA_BYTES))
        held = Limits(memory_quota_bytes=QUOTA_BYTES, duty_permille=DUTY_PERMILLE)
        self.block = ControlBlock.create(self.machine.folder / "job", 1, held)
        return self._started("offline", "launch", limits, self.block)

    def _started(
        self, name: str, kind: str, variables: Mapping[str, str], block: ControlBlock | None = None
    ) -> Client:
        told = {"CUDA_VISIBLE_DEVICES": self.card.uuid} | dict(variables)
        client = self.machine.start("run", kind, "500", block=block, **told)
        client.until_working()
        self.clients[name] = client
        return client

    def client(self, name: str) -> Client:
        if name not in self.clients:
            raise Missing(f"no {name} client was started")
        return self.clients[name]

    # --- what the agent sees of it ---------------------------------------------------------

    @contextmanager
    def collector(self) -> Iterator[Any]:
        """With the sources of a node, asked as the agent asks them."""
        from agents.collectors.real import RealCollector

        collector = RealCollector(
            self.nvml.cards(), self._lanes(), lambda: {PLACEMENT_ID: SHARE_PERCENT}
        )
        try:
            yield collector
        finally:
            collector.close()

    def _lanes(self) -> list[list[Source]]:
        from agents.collectors.gpm import GpmSource
        from agents.collectors.nvml import PcieSource, SignalSource
        from agents.collectors.processes import ProcessSource
        from agents.collectors.xcuda import Block, XcudaSource

        card = self.card
        lanes: list[list[Source]] = [[SignalSource(self.nvml), GpmSource(self.nvml)]]
        lanes += [[it] for it in dcgm_sources()]
        lanes += [[ProcessSource(self.nvml, self._jobs, self._daemons)], [PcieSource(self.nvml)]]
        if self.block is not None:
            blocks = [Block(PLACEMENT_ID, card.index, self.block)]
            lanes.append([XcudaSource(lambda: blocks, {card.index: card.uuid})])
        return lanes

    def _jobs(self) -> Sequence[Any]:
        from agents.collectors.attribution import OfflineJob
        from agents.supervisor import start_ticks

        if "offline" not in self.clients:
            return ()
        pid, ticks = self.clients["offline"].pid, start_ticks(self.clients["offline"].pid)
        return (OfflineJob(PLACEMENT_ID, self.card.index, SHARE_PERCENT, pid, ticks),)

    def look(self) -> NodeReading:
        """The last sample of some seconds."""
        with self.collector() as collector:
            ends = time.monotonic() + LOOK_S
            while time.monotonic() < ends:
                if self._daemons is not None:
                    self._daemons.ring()
                reading: NodeReading = collector.collect(time.monotonic())
                collector.ask_others(time.monotonic())
                time.sleep(SAMPLE_S)
        self.reading = next(gpu for gpu in reading.gpus if gpu.index == self.card.index)
        return reading

    def seen(self) -> GpuReading:
        if self.reading is None:
            raise Missing("no sample was taken")
        return self.reading

    # --- the end ---------------------------------------------------------------------------

    def close(self) -> None:
        """Ends what a step that failed has left."""
        for client in self.clients.values():
            client.close()
        if self._control is not None:
            with contextlib.suppress(Exception):
                self.quit_daemon()
        if self.block is not None:
            self.block.close()
        if self._nvml is not None:
            self._nvml.close()


def dcgm_sources() -> list[Source]:
    """DCGM where it is there: the exporter that $DCGM_URL names, or dcgmi."""
    from agents.collectors import dcgm

    where = os.environ.get("DCGM_URL") or ("dcgmi" if shutil.which("dcgmi") else "")
    return [dcgm.source(where)] if where else []
