"""What follows from a fault on a shared GPU. Pure.

Two tables: what a code calls for (`remedy`), and how a GPU whose MPS server is at fault is brought
back (`step`). One client's fatal error is everybody's: nothing here undoes that, it only makes the
time until online answers again short, and sees that it is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from agents.mps.health import OPEN, ServerState
from agents.sysmonitor.signals import FAULT_XIDS, HARDWARE_XIDS

# --- what a code calls for --------------------------------------------------------------


class Remedy(StrEnum):
    """From mild to grave; the gravest of several holds."""

    NOTHING = "nothing"
    RESTART_JOB = "the offline job failed by itself: it may be tried again, after its back-off"
    WAIT_ACTIVE = "the server is not ready for new clients: wait, and start nothing"
    EVICT_ALL = "all offline work leaves the GPU; its clients may have been hit"
    RECOVER = "the server is at fault: offline ends at once, online is restarted"
    QUARANTINE = "the hardware is suspect: nothing runs here until a person says otherwise"


GRAVITY: Final = tuple(Remedy)

# CUDA's codes (cuda.h) that a client reports, by what we do. What is not listed is the job's own
# affair: out of memory, an invalid argument and the like.
CUDA_CODES: Final[Mapping[int, tuple[Remedy, str]]] = {
    214: (Remedy.QUARANTINE, "an uncorrectable memory error"),
    220: (Remedy.QUARANTINE, "an uncorrectable NVLink error"),
    226: (Remedy.EVICT_ALL, "a contained hardware error that ended the context"),
    700: (Remedy.RECOVER, "an illegal address"),
    702: (Remedy.RECOVER, "a kernel that ran into the time limit"),
    710: (Remedy.RECOVER, "a failed assertion in a kernel"),
    714: (Remedy.RECOVER, "a hardware stack error"),
    715: (Remedy.RECOVER, "an illegal instruction"),
    716: (Remedy.RECOVER, "a misaligned address"),
    717: (Remedy.RECOVER, "an instruction on the wrong address space"),
    718: (Remedy.RECOVER, "an invalid program counter"),
    719: (Remedy.RECOVER, "an exception in a kernel"),
    721: (Remedy.RECOVER, "a kernel that left tensor memory allocated"),
    805: (Remedy.RESTART_JOB, "no connection to the MPS daemon"),
    806: (Remedy.EVICT_ALL, "the MPS server was lost or cannot be spoken to"),
    807: (Remedy.WAIT_ACTIVE, "the MPS server takes no new client now"),
    808: (Remedy.RESTART_JOB, "no room for another MPS client"),
    809: (Remedy.RESTART_JOB, "no connection left for another MPS client"),
    810: (Remedy.NOTHING, "the client was ended by terminate_client, as it was told to"),
    911: (Remedy.RESTART_JOB, "an error of another device that the process works with"),
}
# Beside the hardware XIDs and those that reach every client (`sysmonitor.signals`): the end of
# one process's channels, which is its own affair.
JOB_XIDS: Final = frozenset({8, 43})
STATES: Final[Mapping[ServerState, Remedy]] = {
    ServerState.FAULT: Remedy.RECOVER,
    ServerState.INITIALIZING: Remedy.WAIT_ACTIVE,
    ServerState.SILENT: Remedy.WAIT_ACTIVE,
    ServerState.UNKNOWN: Remedy.WAIT_ACTIVE,
    ServerState.NO_DAEMON: Remedy.WAIT_ACTIVE,
    ServerState.NO_SERVER: Remedy.NOTHING,
    ServerState.ACTIVE: Remedy.NOTHING,
}


def remedy(
    state: ServerState, cuda_code: int | None = None, xid: float | None = None
) -> tuple[Remedy, str]:
    """What the gravest of the three calls for, and why. A code of a kernel's fault while the
    server is well has reached nobody else: then the job alone is to blame and to be tried again."""
    found = [(STATES[state], f"MPS: {state}"), _of_cuda(cuda_code, state), _of_xid(xid)]
    return max(found, key=lambda one: GRAVITY.index(one[0]))


def _of_cuda(code: int | None, state: ServerState) -> tuple[Remedy, str]:
    what, words = CUDA_CODES.get(code or 0, (Remedy.NOTHING, "no error that concerns others"))
    if what is Remedy.RECOVER and state is ServerState.ACTIVE:
        what = Remedy.EVICT_ALL
    return what, f"CUDA error {code}: {words}"


def _of_xid(xid: float | None) -> tuple[Remedy, str]:
    if xid in HARDWARE_XIDS:
        return Remedy.QUARANTINE, f"XID {xid:.0f}: the hardware is suspect"
    if xid in FAULT_XIDS:
        return Remedy.EVICT_ALL, f"XID {xid:.0f}: a client of this GPU faulted"
    return (Remedy.RESTART_JOB if xid in JOB_XIDS else Remedy.NOTHING), f"XID {xid}"


# --- how a GPU comes back ---------------------------------------------------------------

# Offline processes are killed at once: in FAULT their contexts are dead and hold the server up.
END_S: Final = 2.0
# The server is ACTIVE again when the last client that was hit is gone; longer means it is not.
ACTIVE_S: Final = 5.0
RESTART_S: Final = 5.0
# Until online serves again it is nobody's turn; then a person is asked.
ONLINE_S: Final = 60.0
# More recoveries than this within the window, and the card is left to a person.
MOST_FAULTS, WINDOW_S = 3, 600.0


class Stage(StrEnum):
    """What a recovery waits for."""

    SOUND = "nothing"
    ENDING = "offline processes to be gone"
    WAITING = "the server to be ACTIVE"
    RESTARTING = "a new server"
    READMITTING = "online to be a healthy client again"
    UNANSWERED = "online, and a person"
    GIVEN_UP = "a person"


class Trigger(StrEnum):
    """What can happen."""

    FAULTED = "the server is at fault"
    ENDED = "no offline process is left, or its time is over"
    OPEN = "the server takes clients again"
    LATE = "it took too long"
    ONLINE_BACK = "every online process is a healthy client"
    TOO_MANY = "it happened too often"
    PERSON = "a person says go on"


class Act(StrEnum):
    """What the caller does now."""

    END_OFFLINE = "end all offline clients of the GPU at once"
    RESTART_ONLINE = "run the node's hook that restarts the online service, or page without one"
    RESTART_SERVER = "shut the server, and start the daemon where it is gone"
    PAGE = "tell a person"
    QUARANTINE = "disable the GPU as suspect"
    READMIT_OFFLINE = "let offline work come again"


class Move(NamedTuple):
    to: Stage
    acts: tuple[Act, ...] = ()


_S, _T, _A = Stage, Trigger, Act
# Anything else leaves the stage as it is. `step` tries the triggers in their order above.
MOVES: Final[Mapping[tuple[Stage, Trigger], Move]] = {
    (_S.SOUND, _T.FAULTED): Move(_S.ENDING, (_A.END_OFFLINE,)),
    (_S.ENDING, _T.ENDED): Move(_S.WAITING, (_A.RESTART_ONLINE,)),
    (_S.WAITING, _T.OPEN): Move(_S.READMITTING),
    (_S.WAITING, _T.LATE): Move(_S.RESTARTING, (_A.RESTART_SERVER,)),
    (_S.RESTARTING, _T.OPEN): Move(_S.READMITTING, (_A.RESTART_ONLINE,)),
    (_S.RESTARTING, _T.LATE): Move(_S.GIVEN_UP, (_A.PAGE, _A.QUARANTINE)),
    (_S.READMITTING, _T.FAULTED): Move(_S.ENDING, (_A.END_OFFLINE,)),
    (_S.READMITTING, _T.ONLINE_BACK): Move(_S.SOUND, (_A.READMIT_OFFLINE,)),
    (_S.READMITTING, _T.LATE): Move(_S.UNANSWERED, (_A.PAGE,)),
    (_S.UNANSWERED, _T.FAULTED): Move(_S.ENDING, (_A.END_OFFLINE,)),
    (_S.UNANSWERED, _T.ONLINE_BACK): Move(_S.SOUND, (_A.READMIT_OFFLINE,)),
    (_S.SOUND, _T.TOO_MANY): Move(_S.GIVEN_UP, (_A.END_OFFLINE, _A.PAGE, _A.QUARANTINE)),
    (_S.READMITTING, _T.TOO_MANY): Move(_S.GIVEN_UP, (_A.END_OFFLINE, _A.PAGE, _A.QUARANTINE)),
    (_S.UNANSWERED, _T.TOO_MANY): Move(_S.GIVEN_UP, (_A.END_OFFLINE, _A.PAGE, _A.QUARANTINE)),
    (_S.GIVEN_UP, _T.PERSON): Move(_S.SOUND),
}
WITHIN_S: Final[Mapping[Stage, float]] = {
    _S.ENDING: END_S,
    _S.WAITING: ACTIVE_S,
    _S.RESTARTING: RESTART_S,
    _S.READMITTING: ONLINE_S,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """What is true of the GPU now. `online_back`: as many online processes as before the fault
    are clients of an open server and have settled; true where none ran. `approved`: a person
    lifted a quarantine."""

    state: ServerState
    offline_gone: bool
    online_back: bool
    approved: bool = False


@dataclass(frozen=True, slots=True)
class Recovery:
    """`since`: when the stage began; `faults`: when the last ones did (monotonic seconds)."""

    stage: Stage = Stage.SOUND
    since: float = 0.0
    faults: tuple[float, ...] = ()

    @property
    def holds_offline(self) -> bool:
        """Offline work is let in only where nothing is being recovered: online comes first."""
        return self.stage is not Stage.SOUND


def step(recovery: Recovery, seen: Seen, now: float) -> tuple[Recovery, tuple[Act, ...]]:
    """The next stage and what to do now. Call on every change and at least once a second."""
    for trigger in _triggers(recovery, seen, now):
        move = MOVES.get((recovery.stage, trigger))
        if move is not None:
            return _moved(recovery, trigger, move, now), move.acts
    return recovery, ()


def _triggers(recovery: Recovery, seen: Seen, now: float) -> tuple[Trigger, ...]:
    """All that hold now, the most urgent first."""
    left_s = WITHIN_S.get(recovery.stage, float("inf")) - (now - recovery.since)
    faulted = seen.state is ServerState.FAULT
    lately = [at for at in recovery.faults if now - at < WINDOW_S]
    holds = {
        Trigger.PERSON: seen.approved,
        Trigger.TOO_MANY: faulted and len(lately) >= MOST_FAULTS,
        Trigger.FAULTED: faulted,
        Trigger.ENDED: seen.offline_gone or left_s <= 0,
        Trigger.ONLINE_BACK: seen.online_back and seen.state in OPEN,
        Trigger.OPEN: seen.state in OPEN,
        Trigger.LATE: left_s <= 0,
    }
    return tuple(trigger for trigger, held in holds.items() if held)


def _moved(recovery: Recovery, trigger: Trigger, move: Move, now: float) -> Recovery:
    faults = recovery.faults
    if trigger is Trigger.FAULTED:
        faults = (*(at for at in faults if now - at < WINDOW_S), now)
    if trigger is Trigger.PERSON:
        faults = ()
    return replace(recovery, stage=move.to, since=now, faults=faults)


def why_not_restart(state: ServerState, online_clients: int, *, approved: bool) -> str:
    """What forbids to restart the server, "" when nothing does. One that is at fault is of no use
    to anybody; a healthy one is ended under its online clients only with a person's word."""
    if state is ServerState.FAULT or approved or not online_clients:
        return ""
    return (
        f"the server is not at fault and {online_clients} online clients would die with it: it"
        " takes a person's approval"
    )
