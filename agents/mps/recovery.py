"""How a GPU whose MPS server is at fault is brought back. Pure.

One client's fatal error is everybody's: nothing here undoes that, it only makes the time until
online answers again short, and sees that it is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from agents.mps.health import OPEN, ServerState

# Offline processes are killed at once: in FAULT their contexts are dead and hold the server up.
END_S: Final = 2.0
# The server is ACTIVE again when the last client that was hit is gone; longer means it is not.
ACTIVE_S: Final = 5.0
RESTART_S: Final = 5.0
# Until online serves again it is nobody's turn; then a person is asked.
ONLINE_S: Final = 60.0
# What the first hook started may have met the server while it still refused new clients (807), as
# nobody but the hook ends the instance that holds it up. So the hook runs again when online does
# not come, or comes and goes: after a pause, counted from the hook's end, that doubles.
RETRY_S: Final = 3.0
MOST_HOOKS: Final = 3
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
    ALONE = "no process is left on the GPU"
    ENDED = "no offline process is left, or its time is over"
    OPEN = "the server takes clients again"
    LATE = "it took too long"
    ONLINE_BACK = "every online process is a healthy client"
    MISSING = "online did not come, or came and went"
    TOO_MANY = "it happened too often"
    PERSON = "a person says go on"


class Act(StrEnum):
    """What the caller does now, as its story tells it."""

    END_OFFLINE = "all offline clients of the GPU are ended at once"
    RESTART_ONLINE = "online is to be restarted"
    RESTART_SERVER = "the server is shut, or its daemon started where it is gone"
    PAGE = "a person is told"
    QUARANTINE = "the GPU is disabled as suspect"
    READMIT_OFFLINE = "offline work may come again"


class Move(NamedTuple):
    to: Stage
    acts: tuple[Act, ...] = ()


_S, _T, _A = Stage, Trigger, Act
_GIVE_UP: Final = Move(_S.GIVEN_UP, (_A.END_OFFLINE, _A.PAGE, _A.QUARANTINE))
# Anything else leaves the stage as it is. `step` tries the triggers in the order of `_triggers`.
MOVES: Final[Mapping[tuple[Stage, Trigger], Move]] = {
    (_S.SOUND, _T.FAULTED): Move(_S.ENDING, (_A.END_OFFLINE,)),
    # With nobody left the server comes back by itself, and a hook that ran before would fail.
    (_S.ENDING, _T.ALONE): Move(_S.WAITING),
    (_S.ENDING, _T.ENDED): Move(_S.WAITING, (_A.RESTART_ONLINE,)),
    (_S.WAITING, _T.OPEN): Move(_S.READMITTING),
    (_S.WAITING, _T.LATE): Move(_S.RESTARTING, (_A.RESTART_SERVER,)),
    (_S.RESTARTING, _T.OPEN): Move(_S.READMITTING, (_A.RESTART_ONLINE,)),
    (_S.RESTARTING, _T.LATE): Move(_S.GIVEN_UP, (_A.PAGE, _A.QUARANTINE)),
    (_S.READMITTING, _T.FAULTED): Move(_S.ENDING, (_A.END_OFFLINE,)),
    (_S.READMITTING, _T.ONLINE_BACK): Move(_S.SOUND, (_A.READMIT_OFFLINE,)),
    (_S.READMITTING, _T.MISSING): Move(_S.READMITTING, (_A.RESTART_ONLINE,)),
    (_S.READMITTING, _T.LATE): Move(_S.UNANSWERED, (_A.PAGE,)),
    (_S.UNANSWERED, _T.FAULTED): Move(_S.ENDING, (_A.END_OFFLINE,)),
    (_S.UNANSWERED, _T.ONLINE_BACK): Move(_S.SOUND, (_A.READMIT_OFFLINE,)),
    (_S.SOUND, _T.TOO_MANY): _GIVE_UP,
    (_S.READMITTING, _T.TOO_MANY): _GIVE_UP,
    (_S.UNANSWERED, _T.TOO_MANY): _GIVE_UP,
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
    """What is true of the GPU now.

    `faulted`: a fatal error was told of since the last look, also when the server is well again.
    `online_there`: an online process is on the GPU, or nobody can say. `online_missing`: fewer are
    than before the fault, and no hook is at work. `online_back`: as many as before are clients of
    an open server and have settled, and no hook is at work; true where none ran. `approved`: no
    quarantine is on the GPU, or no more.
    """

    state: ServerState
    offline_gone: bool
    online_back: bool
    approved: bool = False
    faulted: bool = False
    online_there: bool = True
    online_missing: bool = False


@dataclass(frozen=True, slots=True)
class Recovery:
    """`since`: when the stage began; `faults`: when the last ones did; `missing_since`: since when
    online is missing without a hook at work (monotonic seconds). `hooks`: how often the hook ran
    in this recovery."""

    stage: Stage = Stage.SOUND
    since: float = 0.0
    faults: tuple[float, ...] = ()
    hooks: int = 0
    missing_since: float | None = None

    @property
    def holds_offline(self) -> bool:
        """Offline work is let in only where nothing is being recovered: online comes first."""
        return self.stage is not Stage.SOUND


def step(recovery: Recovery, seen: Seen, now: float) -> tuple[Recovery, tuple[Act, ...]]:
    """The next stage and what to do now. Call on every change and at least once a second."""
    recovery = replace(recovery, missing_since=_missing_since(recovery, seen, now))
    for trigger in _triggers(recovery, seen, now):
        move = MOVES.get((recovery.stage, trigger))
        if move is not None:
            return _moved(recovery, trigger, move, now), move.acts
    return recovery, ()


def pause_s(hooks: int) -> float:
    """How long online may be missing before the hook runs once more, after it ran so often."""
    if hooks >= MOST_HOOKS:
        return float("inf")
    return 0.0 if hooks == 0 else RETRY_S * 2.0 ** (hooks - 1)


def _missing_since(recovery: Recovery, seen: Seen, now: float) -> float | None:
    if recovery.stage is not Stage.READMITTING or not seen.online_missing:
        return None
    return now if recovery.missing_since is None else recovery.missing_since


def _triggers(recovery: Recovery, seen: Seen, now: float) -> tuple[Trigger, ...]:
    """All that hold now, the most urgent first."""
    left_s = WITHIN_S.get(recovery.stage, float("inf")) - (now - recovery.since)
    faulted = seen.faulted or seen.state is ServerState.FAULT
    lately = [at for at in recovery.faults if now - at < WINDOW_S]
    missing_s = float("-inf") if recovery.missing_since is None else now - recovery.missing_since
    holds = {
        Trigger.PERSON: seen.approved,
        Trigger.TOO_MANY: faulted and len(lately) >= MOST_FAULTS,
        Trigger.FAULTED: faulted,
        Trigger.ALONE: seen.offline_gone and not seen.online_there,
        Trigger.ENDED: seen.offline_gone or left_s <= 0,
        Trigger.ONLINE_BACK: seen.online_back and seen.state in OPEN,
        Trigger.OPEN: seen.state in OPEN,
        Trigger.MISSING: missing_s >= pause_s(recovery.hooks),
        Trigger.LATE: left_s <= 0,
    }
    return tuple(trigger for trigger, held in holds.items() if held)


def _moved(recovery: Recovery, trigger: Trigger, move: Move, now: float) -> Recovery:
    hooks = 0 if trigger is Trigger.FAULTED else recovery.hooks
    return Recovery(
        move.to,
        recovery.since if move.to is recovery.stage else now,
        _faults(recovery, trigger, now),
        hooks + move.acts.count(Act.RESTART_ONLINE),
    )


def _faults(recovery: Recovery, trigger: Trigger, now: float) -> tuple[float, ...]:
    """A person's word wipes the slate clean."""
    if trigger is Trigger.PERSON:
        return ()
    if trigger is Trigger.FAULTED:
        return (*(at for at in recovery.faults if now - at < WINDOW_S), now)
    return recovery.faults


def why_not_restart(state: ServerState, online_clients: int, *, approved: bool) -> str:
    """What forbids to restart the server, "" when nothing does. One that is at fault is of no use
    to anybody; a healthy one is ended under its online clients only with a person's word."""
    if state is ServerState.FAULT or approved or not online_clients:
        return ""
    return (
        f"the server is not at fault and {online_clients} online clients would die with it: it"
        " takes a person's approval"
    )
