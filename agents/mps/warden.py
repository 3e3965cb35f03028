"""One shared GPU's MPS in operation: it looks, keeps the decisions' states, and says what holds.

Keeps no decision of its own: `shareable`, `arrivals`, `remedies`, `recovery` and `timeline`
decide, the node freezes and evicts, and `Hands` do what the MPS side of a recovery takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol

from agents.mps import arrivals, enabling, recovery, roll
from agents.mps.arrivals import Arrivals, Online, Stance
from agents.mps.enabling import Readiness, Step
from agents.mps.health import NOTHING_TOLD, ServerState, Snapshot
from agents.mps.memory import Memory
from agents.mps.recovery import Act, Recovery, Stage
from agents.mps.remedies import HARDWARE_CODES, Call, Remedy, called
from agents.mps.roll import Roll
from agents.mps.shareable import CardFacts, Sharing, Verdict, judge
from agents.mps.stories import Stories
from agents.mps.timeline import CONSEQUENCES, CUT_SHORT, Victim, Witness


class Hands(Protocol):
    """What a recovery does on one GPU; no call waits."""

    @property
    def has_hook(self) -> bool:
        """Whether some online service of the GPU can be restarted from here."""

    @property
    def is_restarting(self) -> bool:
        """Whether a hook is at work."""

    def restart_online(self) -> str:
        """By the node's hook; tells a person where there is none. What was done, in words."""

    def restart_server(self) -> None: ...

    def page(self, why: str) -> None: ...

    def quarantine(self, why: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What MPS means for offline work on a GPU now.

    `unshareable`: none may start, in words. `hold`: what runs must be frozen. `leave`: what runs
    must go, through the ordinary stop. `fault`: clients were hit, in words, and what runs is
    evicted as an emergency; see `sysmonitor`.
    """

    unshareable: str = ""
    hold: str = ""
    leave: str = ""
    fault: str = ""


@dataclass(frozen=True, slots=True)
class Guests:
    """Our own processes on the GPU (None: nobody can list them), what they told of fatal errors,
    and the XIDs since the last look that SysMonitor has no answer to. `enforce`: the GPU's mode
    lets us act; below it a fault is only seen. `approved`: no quarantine is on the GPU, or a person
    lifted it. `service`: the online service of the GPU, "" where there are several or none is
    known. `named`: our own among those that the logs of the server name."""

    processes: Mapping[int, Victim] | None
    witnesses: tuple[Witness, ...] = ()
    xids: tuple[float, ...] = ()
    job_uid: int | None = None
    enforce: bool = True
    approved: bool = False
    service: str = ""
    named: tuple[Victim, ...] = ()

    @property
    def are_gone(self) -> bool:
        """As far as is known: who cannot be listed may still be there."""
        return self.processes is not None and not self.processes


class Warden:
    """Call `look` about once a second, and at once when a snapshot changed."""

    def __init__(self, gpu_uuid: str, hands: Hands, kept: Memory | None = None) -> None:
        kept = Memory() if kept is None else kept
        self._gpu_uuid, self._hands = gpu_uuid, hands
        self._arrivals, self._recovery = Arrivals(), kept.recovery
        self._settled_at: float | None = None
        self._roll: Roll = ()
        self._online_before = kept.online
        self._readiness: Readiness | None = None
        self._call: Call | None = None
        self._culprit: Witness | None = None
        self._heard: frozenset[Witness] = frozenset()
        # Fatal errors in the logs, up to the last look and up to the last one without a fault.
        self._seen_faults: int | None = None
        self._past_faults = 0
        self.stories = Stories(gpu_uuid, kept.story)
        self.verdict = Verdict()

    def look(
        self, card: CardFacts, mps: Snapshot, guests: Guests, now: float, wall: float
    ) -> Terms:
        """`now` in monotonic, `wall` in unix seconds. `card.online` is without our own."""
        sharing = Sharing(card, mps, guests.job_uid)
        self.verdict = judge(sharing)
        self._settle(sharing, now)
        self._arrivals = arrivals.step(self._arrivals, _online(sharing), now)
        self._meet(sharing, guests, wall)
        if guests.enforce:
            done = self._heed(sharing, guests)
            self._recover(sharing, guests, now, wall)
            if done is not None and self.stage is Stage.SOUND:
                self._tell_of_job(done, wall)
        else:
            self._stand_down(mps, wall)
        return self._terms(sharing)

    def steps(self) -> tuple[Step, ...]:
        """The enabling procedure as it stands; empty before the first look."""
        return () if self._readiness is None else enabling.steps(self._readiness)

    @property
    def stage(self) -> Stage:
        return self._recovery.stage

    @property
    def is_recovering(self) -> bool:
        """Something is due from one moment to the next."""
        return self.stage not in (Stage.SOUND, Stage.UNANSWERED, Stage.GIVEN_UP)

    @property
    def memory(self) -> Memory:
        return Memory(self._recovery, self._online_before, self.stories.open)

    def _settle(self, sharing: Sharing, now: float) -> None:
        """How long every online process has been a client without a break."""
        well = sharing.mps.open and sharing.card.online is not None and not sharing.strangers
        if not well:
            self._settled_at = None
        elif self._settled_at is None:
            self._settled_at = now
        settled_s = 0.0 if self._settled_at is None else now - self._settled_at
        self._readiness = Readiness(sharing, settled_s)

    def _meet(self, sharing: Sharing, guests: Guests, wall: float) -> None:
        online = (Victim(one.pid, "online", guests.service or one.name) for one in sharing.online)
        self.stories.meet((*online, *(guests.processes or {}).values()), wall)

    def _heed(self, sharing: Sharing, guests: Guests) -> Call | None:
        """What fatal codes call for while the server itself is well; the call that is done, if one
        is."""
        fresh = [one for one in guests.witnesses if one not in self._heard]
        self._heard = frozenset(guests.witnesses)
        before, codes = self._call, [one.code for one in fresh]
        call = called(before, sharing.mps.state, codes, guests.xids, offline_gone=guests.are_gone)
        if call is not None and call != before:
            self._answer(call, fresh)
        self._call = call
        return before if call is None else None

    def _answer(self, call: Call, fresh: Iterable[Witness]) -> None:
        """Neither a hardware error nor what the server did to it is a job's fault."""
        own = (one for one in fresh if one.code == call.code and one.code not in NOBODYS_FAULT)
        self._culprit = next(own, None)
        if call.remedy is Remedy.QUARANTINE:
            self._hands.quarantine(call.why)

    def _tell_of_job(self, call: Call, wall: float) -> None:
        """Once it is gone: a fault of the server would have shown by now, and have its own
        story."""
        if self._culprit is not None:
            self.stories.tell_alone(call.why, self._culprit, wall)

    def _recover(self, sharing: Sharing, guests: Guests, now: float, wall: float) -> None:
        before, account = self.stage, sharing.mps.account
        self._count_online(sharing, now)
        seen = self._seen(sharing, guests)
        self._recovery, acts = recovery.step(self._recovery, seen, now)
        if self.stage is not before:
            self._tell(before, sharing.mps.state, wall)
        for act in acts:
            self._act(act, wall)
        named = account if account.faults > self._past_faults else NOTHING_TOLD
        self.stories.learn(named, guests.witnesses, guests.named)
        if self.stage is Stage.GIVEN_UP:
            self.stories.end(f"it is left to {self.stage}", wall)

    def _count_online(self, sharing: Sharing, now: float) -> None:
        """Of processes that have settled: one that has only just come may be an instance beside
        the one that it replaces, or a job of ours that nobody has recognised yet. Only where none
        was ever counted, those count that the fault finds."""
        settled = self.stage is Stage.SOUND and self._arrivals.stance is Stance.OPEN
        if settled or (self.stage is Stage.ENDING and not self._online_before):
            before = self._roll or ((now, self._online_before),)
            self._roll = roll.note(before, len(sharing.online), now)
            self._online_before = roll.most(self._roll)

    def _seen(self, sharing: Sharing, guests: Guests) -> recovery.Seen:
        """Another number of online processes than before is for a person to explain."""
        enough = len(sharing.online) >= self._online_before
        restarting = self._recovery.holds_offline and self._hands.is_restarting
        may_restart = self._recovery.hooks == 0 or self._hands.has_hook
        return recovery.Seen(
            sharing.mps.state,
            offline_gone=guests.are_gone,
            online_back=enough and not restarting and self._arrivals.stance is Stance.OPEN,
            approved=guests.approved,
            faulted=self._new_fault(sharing.mps),
            online_there=sharing.card.online is None or bool(sharing.online),
            online_missing=not enough and may_restart and not restarting,
        )

    def _new_fault(self, mps: Snapshot) -> bool:
        """Told by the logs since the last look; what they held before the first one is history,
        but for the fault that the server is in."""
        faults, before = mps.account.faults, self._seen_faults
        if mps.at == float("-inf"):
            return False
        first = before is None
        if before is None:
            before = faults - 1 if mps.state is ServerState.FAULT and faults else faults
        if first or self.stage is Stage.SOUND:
            self._past_faults = before
        self._seen_faults = faults
        return faults > before

    def _tell(self, before: Stage, state: ServerState, wall: float) -> None:
        if before is Stage.SOUND or self.stage is Stage.ENDING:
            self.stories.begin(str(state) if state is ServerState.FAULT else PASSED, wall)
        if self.stage is Stage.SOUND:
            self.stories.close(wall)
        else:
            self.stories.note(f"waiting for {self.stage}", wall)

    def _act(self, act: Act, wall: float) -> None:
        """Offline work is ended and let in by the node, by what `Terms` say."""
        done = str(act)
        match act:
            case Act.RESTART_ONLINE:
                done = f"{act}: {self._hands.restart_online()}"
            case Act.RESTART_SERVER:
                self._hands.restart_server()
                self._arrivals = arrivals.forget(self._arrivals)
            case Act.PAGE:
                self._hands.page(f"MPS of GPU {self._gpu_uuid}: waiting for {self.stage}")
            case Act.QUARANTINE:
                self._hands.quarantine("its MPS server faulted too often, or did not come back")
        self.stories.note(done, wall)

    def _stand_down(self, mps: Snapshot, wall: float) -> None:
        """Where nothing may be done, nothing is under way."""
        self.stories.end(f"{CUT_SHORT}the mode of this GPU lets the node do nothing", wall)
        self._recovery, self._call = Recovery(), None
        self._new_fault(mps)

    def _terms(self, sharing: Sharing) -> Terms:
        hold = "" if self._arrivals.stance is Stance.OPEN else self._arrivals.why
        if self._recovery.holds_offline:
            hold = f"recovering from a fault: waiting for {self.stage}"
        terms = Terms(self._unshareable(hold), hold, self._leave(), self._fault(sharing.mps.state))
        if self._call is None:
            return terms
        return replace(terms, unshareable=self._call.why, hold=terms.hold or self._call.why)

    def _leave(self) -> str:
        if self._call is not None and self._call.remedy is not Remedy.EVICT_ALL:
            return self._call.why
        if self.stage is Stage.GIVEN_UP:
            return "its MPS server faulted too often, or did not come back"
        return self._arrivals.why if self._arrivals.stance is Stance.CLOSED else ""

    def _fault(self, state: ServerState) -> str:
        if state is ServerState.FAULT or self.stage is Stage.ENDING:
            return HIT
        if self._call is not None and self._call.remedy is Remedy.EVICT_ALL:
            return self._call.why
        return ""

    def _unshareable(self, hold: str) -> str:
        if not self.verdict.shareable:
            return self.verdict.sentence
        if self._readiness is None or enabling.admits(self._readiness):
            return hold
        left = [step.left for step in self.steps() if step.left]
        return f"not verified yet: {left[0]}" if left else hold


NOBODYS_FAULT: Final = CONSEQUENCES | HARDWARE_CODES
HIT: Final = "the MPS server is in FAULT: every client of this GPU was hit"
PASSED: Final = "a fatal error hit every client; the server is well again"


def _online(sharing: Sharing) -> Online:
    pids = None if sharing.card.online is None else frozenset(one.pid for one in sharing.online)
    return Online(pids, sharing.mps.client_pids, sharing.mps.open)
