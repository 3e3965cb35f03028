"""The MPS side of one node: a warden for each card, fed from what the node has already read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from agents.collectors.attribution import Side, is_online
from agents.collectors.base import GpuReading
from agents.collectors.card import Card
from agents.mps.health import Snapshot
from agents.mps.shareable import CardFacts, OnlineProcess
from agents.mps.timeline import Timeline, Victim
from agents.mps.warden import Guests, Hands, Terms, Warden
from agents.mps.watch import uid_of
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal


class MpsSide(Protocol):
    """What the node asks once a second."""

    def terms(self, index: int, reading: GpuReading | None, now: float, *, enforce: bool) -> Terms:
        """`enforce`: the mode of this GPU lets the node act."""


class NodeMps:
    """Of a node whose cards share through MPS."""

    def __init__(
        self,
        cards: Mapping[int, Card],
        snapshot: Callable[[str], Snapshot],
        hands: Callable[[Card], Hands],
        job_uid: int | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        """`snapshot` is of the GPU with this UUID; cards by their index. Of a card
        that is not among them MPS says nothing."""
        self._cards, self._snapshot = dict(cards), snapshot
        self._job_uid, self._wall = job_uid, wall
        self.wardens = {
            index: Warden(card.uuid, hands(card)) for index, card in self._cards.items()
        }

    def terms(self, index: int, reading: GpuReading | None, now: float, *, enforce: bool) -> Terms:
        card = self._cards.get(index)
        if card is None:
            return Terms()
        facts = facts_of(card, reading)
        guests = Guests(_ours(reading), job_uid=self._job_uid, enforce=enforce)
        return self.wardens[index].look(facts, self._snapshot(card.uuid), guests, now, self._wall())

    def timelines(self) -> tuple[Timeline, ...]:
        return tuple(told for warden in self.wardens.values() for told in warden.timelines)


def facts_of(card: Card, reading: GpuReading | None) -> CardFacts:
    """The card as the last sample shows it; without one nobody knows who runs on it."""
    facts = CardFacts(
        card.uuid,
        card.driver,
        card.mig,
        compute_mode=card.compute_mode,
        memory_bytes=card.memory_bytes,
        sm_activity_source="gpm" if card.gpm else "",
        wrong="" if card.mig or card.compute_mode == "prohibited" else card.forbidden,
    )
    if reading is None:
        return facts
    used = reading.values[POSITIONS[Signal.MEMORY]]
    return replace(
        facts,
        used_bytes=None if used is None else int(used),
        offline_bytes=reading.offline_memory_bytes or 0,
        sm_activity_source=facts.sm_activity_source or _sm_activity(reading),
        online=_online(reading),
        wrong=reading.trouble or facts.wrong,
    )


def _sm_activity(reading: GpuReading) -> str:
    """Whoever gave it in this sample."""
    at = POSITIONS[Signal.SM_ACTIVITY]
    origin = reading.origins[at] if at < len(reading.origins) else None
    return "" if origin is None else origin.source


def _online(reading: GpuReading) -> tuple[OnlineProcess, ...] | None:
    if reading.processes is None:
        return None
    return tuple(
        OnlineProcess(one.pid, uid_of(one.pid), one.name, one.mps)
        for one in reading.processes
        if is_online(one)
    )


def _ours(reading: GpuReading | None) -> dict[int, Victim]:
    processes = () if reading is None else reading.processes or ()
    return {
        one.pid: Victim(one.pid, "offline", one.placement_id or "")
        for one in processes
        if one.side is Side.OFFLINE
    }
