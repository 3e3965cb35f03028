"""One shared GPU's MPS in operation: it looks, keeps the decisions' states, and says what holds.

Keeps no decision of its own: `shareable`, `arrivals`, `recovery` and `timeline` decide, the node
freezes and evicts, and `Hands` do what the MPS side of a recovery takes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from agents.mps import arrivals, enabling, recovery, timeline
from agents.mps.arrivals import Arrivals, Online, Stance
from agents.mps.enabling import Readiness, Step
from agents.mps.health import ServerState, Snapshot
from agents.mps.recovery import Act, Recovery
from agents.mps.shareable import CardFacts, Sharing, Verdict, judge
from agents.mps.timeline import Timeline, Victim, Witness


class Hands(Protocol):
    """What a recovery does on one GPU; no call waits."""

    def restart_online(self) -> None:
        """By the node's hook; tells a person where there is none."""

    def restart_server(self) -> None: ...

    def page(self, why: str) -> None: ...

    def quarantine(self, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What MPS means for offline work on a GPU now.

    `unshareable`: none may start, in words. `hold`: what runs must be frozen. `leave`: what runs
    must go, through the ordinary stop. `fault`: every client was hit; see `sysmonitor`.
    """

    unshareable: str = ""
    hold: str = ""
    leave: str = ""
    fault: bool = False


@dataclass(frozen=True, slots=True)
class Guests:
    """Our own processes on the GPU, and what they told of fatal errors. `enforce`: the GPU's mode
    lets us act; below it a fault is only seen. `approved`: a person lifts a quarantine."""

    processes: Mapping[int, Victim]
    witnesses: tuple[Witness, ...] = ()
    job_uid: int | None = None
    enforce: bool = True
    approved: bool = False


class Warden:
    """Call `look` about once a second, and at once when a snapshot changed."""

    def __init__(self, gpu_uuid: str, hands: Hands) -> None:
        self._gpu_uuid, self._hands = gpu_uuid, hands
        self._arrivals, self._recovery = Arrivals(), Recovery()
        self._settled_at: float | None = None
        self._online_before = 0
        self._readiness: Readiness | None = None
        self.verdict = Verdict()
        self.timelines: tuple[Timeline, ...] = ()

    def look(
        self, card: CardFacts, mps: Snapshot, guests: Guests, now: float, wall: float
    ) -> Terms:
        """`now` in monotonic, `wall` in unix seconds. `card.online` is without our own."""
        sharing = Sharing(card, mps, guests.job_uid)
        self.verdict = judge(sharing)
        self._settle(sharing, now)
        self._arrivals = arrivals.step(self._arrivals, _online(sharing), now)
        if guests.enforce:
            self._recover(sharing, guests, now, wall)
        else:
            self._recovery = Recovery()
        return self._terms(sharing)

    def steps(self) -> tuple[Step, ...]:
        """The enabling procedure as it stands; empty before the first look."""
        return () if self._readiness is None else enabling.steps(self._readiness)

    @property
    def stage(self) -> recovery.Stage:
        return self._recovery.stage

    def _settle(self, sharing: Sharing, now: float) -> None:
        """How long every online process has been a client without a break."""
        well = sharing.mps.open and sharing.card.online is not None and not sharing.strangers
        if not well:
            self._settled_at = None
        elif self._settled_at is None:
            self._settled_at = now
        settled_s = 0.0 if self._settled_at is None else now - self._settled_at
        self._readiness = Readiness(sharing, settled_s)

    def _recover(self, sharing: Sharing, guests: Guests, now: float, wall: float) -> None:
        before = self._recovery
        if not before.holds_offline and sharing.mps.state is not ServerState.FAULT:
            self._online_before = len(sharing.online)
        seen = recovery.Seen(
            sharing.mps.state, not guests.processes, self._online_is_back(sharing), guests.approved
        )
        self._recovery, acts = recovery.step(before, seen, now)
        if self._recovery.stage is not before.stage:
            self._tell(before, sharing, guests, wall)
        for act in acts:
            self._act(act, wall)

    def _online_is_back(self, sharing: Sharing) -> bool:
        """As many as before, all settled. Another number is for a person to explain."""
        enough = len(sharing.online) >= self._online_before
        return enough and self._arrivals.stance is Stance.OPEN

    def _tell(self, before: Recovery, sharing: Sharing, guests: Guests, wall: float) -> None:
        if before.stage is recovery.Stage.SOUND:
            known = {one.pid: Victim(one.pid, "online", one.name) for one in sharing.online}
            begun = timeline.begin(
                self._gpu_uuid,
                wall,
                str(sharing.mps.state),
                sharing.mps.account,
                guests.witnesses,
                known | dict(guests.processes),
            )
            self.timelines = (*self.timelines[-MOST_TIMELINES:], begun)
        self._note(self._recovery.stage, wall)

    def _note(self, what: recovery.Stage | Act, wall: float) -> None:
        if self.timelines and self.timelines[-1].recovered_s is None:
            told = timeline.add(self.timelines[-1], what, wall)
            if what is recovery.Stage.SOUND:
                told = timeline.close(self.timelines[-1], wall)
            self.timelines = (*self.timelines[:-1], told)

    def _act(self, act: Act, wall: float) -> None:
        """Offline work is ended and let in by the node, by what `Terms` say."""
        self._note(act, wall)
        match act:
            case Act.RESTART_ONLINE:
                self._hands.restart_online()
            case Act.RESTART_SERVER:
                self._hands.restart_server()
                self._arrivals = arrivals.forget(self._arrivals)
            case Act.PAGE:
                self._hands.page(f"MPS of GPU {self._gpu_uuid}: {self._recovery.stage}")
            case Act.QUARANTINE:
                self._hands.quarantine("its MPS server faulted too often, or did not come back")

    def _terms(self, sharing: Sharing) -> Terms:
        fault = sharing.mps.state is ServerState.FAULT
        closed = self._arrivals.stance is Stance.CLOSED
        hold = "" if self._arrivals.stance is Stance.OPEN else self._arrivals.why
        if self._recovery.holds_offline:
            hold = f"recovering from a fault: waiting for {self._recovery.stage}"
        terms = Terms(self._unshareable(hold), hold, fault=fault)
        return replace(terms, leave=self._arrivals.why) if closed else terms

    def _unshareable(self, hold: str) -> str:
        if not self.verdict.shareable:
            return self.verdict.sentence
        if self._readiness is None or enabling.admits(self._readiness):
            return hold
        left = [step.left for step in self.steps() if step.left]
        return f"not verified yet: {left[0]}" if left else hold


# How many past faults are kept beside the one that is being recovered from.
MOST_TIMELINES = 31


def _online(sharing: Sharing) -> Online:
    pids = None if sharing.card.online is None else frozenset(one.pid for one in sharing.online)
    return Online(pids, sharing.mps.client_pids, sharing.mps.open)
