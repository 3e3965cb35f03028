"""What one card is, and what forbids to share it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from agents.sysmonitor.signals import GpuFacts
from agents.wire.messages import GpuInventory

# Bytes a second of one lane in one direction, after line coding, by generation (PCI-SIG).
LANE_BYTES_S: Final[dict[int, float]] = {
    1: 250e6,
    2: 500e6,
    3: 984.6e6,
    4: 1_969.2e6,
    5: 3_938.5e6,
    6: 7_563e6,
}


@dataclass(frozen=True, slots=True)
class Card:
    """One GPU as its driver describes it; None where it does not say.

    `mig` None: nobody can tell. `compute_mode` is NVML's name of it in lower case. `gpm`: SM
    activity can be read without DCGM. `capability`: CUDA's compute capability. `forbidden` is the
    fact that forbids sharing, empty when none is known.
    """

    index: int
    uuid: str
    model: str
    memory_bytes: int
    driver: str = ""
    pci_bus_id: str = ""
    mig: bool | None = False
    compute_mode: str = ""
    sm_clock_max_mhz: float | None = None
    power_limit_w: float | None = None
    pcie_generation: int | None = None
    pcie_width: int | None = None
    gpm: bool = False
    capability: tuple[int, int] | None = None
    forbidden: str = ""

    @property
    def pcie_max_bytes_s(self) -> float | None:
        """What the link can receive."""
        lane = LANE_BYTES_S.get(self.pcie_generation or 0)
        return None if lane is None or not self.pcie_width else lane * self.pcie_width

    @property
    def is_named(self) -> bool:
        """Whether it has a UUID of its own: a masked or missing one is the same for all cards."""
        return self.uuid.startswith("GPU-") and bool(self.uuid.removeprefix("GPU-").strip("0-"))

    @property
    def facts(self) -> GpuFacts:
        return GpuFacts(
            self.memory_bytes, self.power_limit_w, self.sm_clock_max_mhz, self.pcie_max_bytes_s
        )

    @property
    def inventory(self) -> GpuInventory:
        return GpuInventory(
            self.index,
            self.uuid,
            self.model,
            self.memory_bytes,
            self.driver,
            self.sm_clock_max_mhz,
            self.power_limit_w,
            "nvml",
            self.forbidden,
            self.pcie_max_bytes_s,
        )


def judged(cards: Sequence[Card], sm_activity_elsewhere: bool) -> tuple[Card, ...]:
    """The cards, each with the fact that forbids to share it.

    `sm_activity_elsewhere`: some other source than NVML gives SM activity for all of them.
    """
    claims = Counter(card.uuid for card in cards)
    return tuple(
        replace(card, forbidden=_forbidden(card, claims[card.uuid], sm_activity_elsewhere))
        for card in cards
    )


def _forbidden(card: Card, claims: int, sm_activity_elsewhere: bool) -> str:
    if card.mig:
        return "MIG is enabled: its parts are isolated by hardware and not shared by MuxFlow"
    if not card.is_named:
        return "the driver gives it no UUID, so nothing can be told apart from other GPUs"
    if claims > 1:
        return f"{claims} GPUs of this node claim the UUID {card.uuid}"
    if card.mig is None:
        return "the driver does not tell whether MIG is enabled"
    if card.memory_bytes <= 0:
        return "the driver does not tell its memory size"
    if card.compute_mode == "prohibited":
        return "its compute mode prohibits every CUDA process: nvidia-smi -c EXCLUSIVE_PROCESS"
    if not card.gpm and not sm_activity_elsewhere:
        return "no source of SM activity: before Hopper it takes DCGM (give the agent --dcgm URL)"
    return ""
