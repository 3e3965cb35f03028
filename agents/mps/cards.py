"""The facts of this node's cards that a verdict needs, from whatever is there to tell them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from agents.collectors import procfs
from agents.collectors.attribution import Client, Side, attributed
from agents.collectors.card import Card, judged
from agents.collectors.nvml import Device, Nvml, Trouble, clients, memory_bytes
from agents.mps.shareable import CardFacts, OnlineProcess
from agents.mps.side import facts_of
from agents.mps.watch import uid_of


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
        cards = judged([device.card for device in devices], sm_activity_elsewhere=True)
        return tuple(map(self._card, devices, cards))

    def _card(self, device: Device, card: Card) -> NodeCard:
        try:
            facts = self._facts(device, card)
        except Trouble as trouble:
            facts = CardFacts(card.uuid, card.driver, wrong=str(trouble))
        return NodeCard(card.index, card.model, facts)

    def _facts(self, device: Device, card: Card) -> CardFacts:
        facts, used = facts_of(card, None), memory_bytes(self._nvml, device)
        listed = clients(self._nvml, device)
        return replace(
            facts,
            used_bytes=None if used is None else used[0],
            sm_activity_source=facts.sm_activity_source or self._sm_activity(card),
            online=None if listed is None else online(listed),
        )

    def _sm_activity(self, card: Card) -> str:
        return "dcgm" if card.uuid in self._dcgm else ""


def online(listed: Iterable[Client]) -> tuple[OnlineProcess, ...]:
    """Of the driver's list those that compute and are not NVIDIA's own server."""
    processes = attributed([one for one in listed if not one.graphics], (), procfs.identity)
    return tuple(
        OnlineProcess(one.pid, uid_of(one.pid), one.name, one.mps)
        for one in processes
        if one.side is not Side.MPS_SERVER
    )
