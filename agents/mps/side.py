"""The MPS side of one node: a warden for each card, fed from what the node has already read."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Protocol

from agents.collectors.attribution import GpuProcess, Side, is_online
from agents.collectors.base import GpuReading
from agents.collectors.card import Card
from agents.mps import health, timeline
from agents.mps.health import ServerState, Snapshot
from agents.mps.journal import Account
from agents.mps.keep import Keep
from agents.mps.shareable import CardFacts, OnlineProcess
from agents.mps.timeline import Victim, Witness
from agents.mps.warden import Guests, Hands, Terms, Warden
from agents.mps.watch import uid_of
from agents.supervisor import start_ticks
from agents.sysmonitor.signals import POSITIONS
from agents.wire.names import Signal


@dataclass(frozen=True, slots=True)
class Around:
    """What the node knows of one GPU beside its sample. `enforce`: its mode lets the node act.
    `lifted`: no quarantine is on it. `xids`: those since the last look that SysMonitor has no
    answer to."""

    enforce: bool
    lifted: bool = True
    xids: tuple[float, ...] = ()


class Found(NamedTuple):
    """All that a look at one GPU goes by, but for its memory in use. `who`: pid, start and side of
    each process, and what troubles the card; None without a sample."""

    state: ServerState
    account: Account
    client_pids: frozenset[int] | None
    who: tuple[object, ...] | None
    around: Around
    witnesses: tuple[Witness, ...]
    services: tuple[str, ...]


class Listed(NamedTuple):
    """A list of processes, and who they are."""

    listed: Sequence[GpuProcess]
    trouble: str
    who: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Rest:
    """A GPU on which nothing forbids anything, as it was found at `at`: as long as it is found
    the same, a look would say the same."""

    found: Found
    at: float

    def lasts(self, found: Found, now: float) -> bool:
        return 0.0 <= now - self.at < REST_S and found == self.found


# Memory in use, and who was there a moment ago, are noted at least so often.
REST_S: Final = 5.0
NOTHING_SAID: Final = Terms()


class MpsSide(Protocol):
    """What the node asks once a second, and of a GPU that is `urgent` on each sample."""

    def terms(
        self, index: int, reading: GpuReading | None, around: Around, now: float
    ) -> Terms: ...

    def urgent(self) -> Sequence[int]:
        """The GPUs where something has happened, or is under way, that waits for no second."""

    def news(self, index: int) -> tuple[dict[str, Any], ...]:
        """The data of gpu_fault events that are due: of stories that have begun or gone on."""


class NodeMps:
    """Of a node whose cards share through MPS."""

    def __init__(
        self,
        cards: Mapping[int, Card],
        snapshot: Callable[[str], Snapshot],
        hands: Callable[[Card], Hands],
        *,
        job_uid: int | None = None,
        witnesses: Callable[[int], tuple[Witness, ...]] = lambda _index: (),
        services: Callable[[int], Sequence[str]] = lambda _index: (),
        keep: Keep | None = None,
        wall: Callable[[], float] = time.time,
        looks: Callable[[], object] = object,
        named: Callable[[int, Iterable[int]], tuple[Victim, ...]] = lambda _index, _pids: (),
    ) -> None:
        """`snapshot` is of the GPU with this UUID; cards, `witnesses` and the names of online
        `services` by their index. Of a card that is not among them MPS says nothing. Without
        `keep` nothing survives this agent. `named` are those of some processes on a GPU that are
        our own, by what their runtime knows. As long as `looks` is the same no snapshot is new."""
        self._cards, self._snapshot = dict(cards), snapshot
        self._job_uid, self._witnesses, self._wall = job_uid, witnesses, wall
        self._services, self._keep = services, keep
        self._seen: dict[int, Snapshot] = {}
        self._rests: dict[int, Rest] = {}
        self._listed: dict[int, Listed] = {}
        self.wardens = {index: self._warden(card, hands) for index, card in self._cards.items()}
        self._looks, self._calm_since = looks, object()
        self._named = named

    def terms(self, index: int, reading: GpuReading | None, around: Around, now: float) -> Terms:
        card = self._cards.get(index)
        if card is None:
            return NOTHING_SAID
        self._seen[index] = seen = self._snapshot(card.uuid)
        mps = health.as_of(seen, now)
        found = Found(
            mps.state,
            mps.account,
            mps.client_pids,
            self._who(index, reading),
            around,
            self._witnesses(index),
            tuple(self._services(index)),
        )
        rest = self._rests.get(index)
        if rest is not None and rest.lasts(found, now):
            return NOTHING_SAID
        told = self._look(card, reading, mps, found, now)
        self._rests.pop(index, None)
        if told == NOTHING_SAID:
            self._rests[index] = Rest(found, now)
        return told

    def _who(self, index: int, reading: GpuReading | None) -> tuple[object, ...] | None:
        """As `_who`; most lists are those of the look before."""
        if reading is None or reading.processes is None:
            return None
        listed, trouble = reading.processes, reading.trouble
        before = self._listed.get(index)
        if before is None or before.listed is not listed or before.trouble != trouble:
            self._listed[index] = before = Listed(listed, trouble, _who(listed, trouble))
        return before.who

    def _look(
        self, card: Card, reading: GpuReading | None, mps: Snapshot, found: Found, now: float
    ) -> Terms:
        warden = self.wardens[card.index]
        # The list is up to some seconds old, and a recovery does not wait for it.
        is_there = _is_listed if mps.open and not warden.is_recovering else _is_alive
        guests = Guests(
            _ours(reading, is_there),
            found.witnesses,
            found.around.xids,
            self._job_uid,
            found.around.enforce,
            found.around.lifted,
            _only(found.services),
            self._named(card.index, _told_of(mps.account)),
        )
        facts = facts_of(card, reading, is_there)
        told = warden.look(facts, mps, guests, now, self._wall())
        self._calm_since = object()
        if self._keep is not None:
            self._keep.save(card.uuid, warden.memory)
        return told

    def urgent(self) -> Sequence[int]:
        looks = self._looks()
        if looks == self._calm_since:
            return ()
        found = [index for index in self._seen if self._is_urgent(index)]
        if not found:
            self._calm_since = looks
        return found

    def _is_urgent(self, index: int) -> bool:
        state = self._snapshot(self._cards[index].uuid).state
        return state is not self._seen[index].state or self.wardens[index].is_recovering

    def news(self, index: int) -> tuple[dict[str, Any], ...]:
        if index not in self.wardens:
            return ()
        return tuple(timeline.event(one) for one in self.wardens[index].stories.news())

    def _warden(self, card: Card, hands: Callable[[Card], Hands]) -> Warden:
        kept = None if self._keep is None else self._keep.load(card.uuid, self._wall())
        return Warden(card.uuid, hands(card), kept)


def _told_of(account: Account) -> tuple[int, ...]:
    fault = account.fault
    if fault is None:
        return ()
    return fault.hit_pids if fault.guilty_pid is None else (fault.guilty_pid, *fault.hit_pids)


def _only(services: Sequence[str]) -> str:
    return services[0] if len(services) == 1 else ""


def _who(listed: Sequence[GpuProcess], trouble: str) -> tuple[object, ...]:
    return trouble, *((one.pid, one.started_ticks, one.side) for one in listed)


def _is_listed(_process: GpuProcess) -> bool:
    """Taken at its word."""
    return True


def facts_of(
    card: Card, reading: GpuReading | None, is_there: Callable[[GpuProcess], bool] = _is_listed
) -> CardFacts:
    """The card as the last sample shows it; without one nobody knows who runs on it."""
    facts = CardFacts(
        card.uuid,
        card.driver,
        card.mig,
        card.capability,
        card.compute_mode,
        card.memory_bytes,
        sm_activity_source="gpm" if card.gpm else "",
        # What has a rule of its own is told there, with its own way out.
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
        online=_online(reading, is_there),
        wrong=reading.trouble or facts.wrong,
    )


def _sm_activity(reading: GpuReading) -> str:
    """Whoever gave it in this sample."""
    at = POSITIONS[Signal.SM_ACTIVITY]
    origin = reading.origins[at] if at < len(reading.origins) else None
    return "" if origin is None else origin.source


def _online(
    reading: GpuReading, is_there: Callable[[GpuProcess], bool]
) -> tuple[OnlineProcess, ...] | None:
    if reading.processes is None:
        return None
    return tuple(
        OnlineProcess(one.pid, uid_of(one.pid), one.known_as, one.mps)
        for one in reading.processes
        if is_online(one) and is_there(one)
    )


def _ours(
    reading: GpuReading | None, is_there: Callable[[GpuProcess], bool]
) -> dict[int, Victim] | None:
    if reading is None or reading.processes is None:
        return None
    return {
        one.pid: Victim(one.pid, "offline", one.name, one.placement_id or "")
        for one in reading.processes
        if one.side is Side.OFFLINE and is_there(one)
    }


def _is_alive(process: GpuProcess) -> bool:
    """Now, whatever the list says."""
    ticks = process.started_ticks
    return ticks is None or start_ticks(process.pid) == ticks
