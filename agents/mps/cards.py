"""The facts of this node's cards that a verdict needs, from whatever is there to tell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agents.collectors import numbers, procfs
from agents.collectors.attribution import Client, Side, attributed
from agents.collectors.base import Unavailable
from agents.collectors.card import Card, judged
from agents.collectors.nvml import MEMORY_V2, Device, Nvml, Trouble, clients
from agents.mps.shareable import CardFacts, OnlineProcess
from agents.mps.watch import uid_of

MAX_MEMORY_BYTES = 1 << 46


@dataclass(frozen=True, slots=True)
class NodeCard:
    """One card as people know it, and its facts."""

    index: int
    model: str
    facts: CardFacts


class CardSource(Protocol):
    """Whoever can tell of cards."""

    def cards(self) -> Sequence[NodeCard]:
        """Raises collectors.base.Unavailable with a sentence where nothing can be told."""


class NvmlCards:
    """Through NVML. Reads, and changes nothing; needs no root."""

    def __init__(self, nvml: Nvml, dcgm_uuids: frozenset[str] = frozenset()) -> None:
        """`dcgm_uuids`: the GPUs whose SM activity DCGM tells."""
        self._nvml, self._dcgm = nvml, dcgm_uuids

    def cards(self) -> tuple[NodeCard, ...]:
        devices = self._nvml.devices()
        wrong = {
            card.index: card.forbidden
            for card in judged([device.card for device in devices], sm_activity_elsewhere=True)
        }
        return tuple(self._card(device, wrong[device.card.index]) for device in devices)

    def _card(self, device: Device, wrong: str) -> NodeCard:
        card = device.card
        try:
            facts = self._facts(device, _card_itself(card, wrong))
        except Trouble as trouble:
            facts = CardFacts(card.uuid, card.driver, wrong=str(trouble))
        return NodeCard(card.index, card.model, facts)

    def _facts(self, device: Device, wrong: str) -> CardFacts:
        card = device.card
        capability = self._nvml.ask(device, "nvmlDeviceGetCudaComputeCapability")
        listed = clients(self._nvml, device)
        return CardFacts(
            card.uuid,
            card.driver,
            card.mig,
            None if capability is None else (int(capability[0]), int(capability[1])),
            card.compute_mode,
            card.memory_bytes,
            self._used_bytes(device),
            sm_activity_source=self._sm_activity(card),
            online=None if listed is None else online(listed),
            wrong=wrong,
        )

    def _used_bytes(self, device: Device) -> int | None:
        memory: Any = self._nvml.first_of(
            device, ("nvmlDeviceGetMemoryInfo", MEMORY_V2), ("nvmlDeviceGetMemoryInfo",)
        )
        return None if memory is None else numbers.size(memory.used, MAX_MEMORY_BYTES)

    def _sm_activity(self, card: Card) -> str:
        return "gpm" if card.gpm else "dcgm" if card.uuid in self._dcgm else ""


def _card_itself(card: Card, wrong: str) -> str:
    """What `shareable` has a rule of its own for is told there, with its own way out."""
    return "" if card.mig or card.compute_mode == "prohibited" else wrong


def online(listed: Iterable[Client]) -> tuple[OnlineProcess, ...]:
    """Of the driver's list those that compute and are not NVIDIA's own server."""
    processes = attributed([one for one in listed if not one.graphics], (), procfs.identity)
    return tuple(
        OnlineProcess(one.pid, uid_of(one.pid), one.name, one.mps)
        for one in processes
        if one.side is not Side.MPS_SERVER
    )


def without_driver() -> Unavailable | None:
    """What the kernel itself says: no NVIDIA driver is loaded."""
    if Path("/proc/driver/nvidia/version").exists():
        return None
    return Unavailable("no NVIDIA driver is loaded on this node: there is no GPU to share")
