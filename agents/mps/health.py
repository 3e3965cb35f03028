"""How one GPU's MPS daemon and server are. Pure.

The control program is asked seldom, because each question costs a process; the logs are read
often, because that costs nothing. What a log says makes the daemon worth asking at once, and a
fatal error in a log counts from then on, until the server itself says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from agents.mps.answers import Status
from agents.mps.journal import Account


class ServerState(StrEnum):
    """One GPU's MPS as the agent sees it."""

    NO_DAEMON = "no control daemon answers for this GPU"
    NO_SERVER = "the daemon is there; its server starts with the first client"
    INITIALIZING = "the server is starting"
    ACTIVE = "the server serves its clients"
    FAULT = "a fatal error hit every client; new ones are refused until all of them are gone"
    SILENT = "the daemon does not answer in time"
    UNKNOWN = "nobody can say: the daemon is closed to this user, or its answer makes no sense"


# Of a GPU whose logs were not read.
NOTHING_TOLD: Final = Account()

# New clients are let in; with the first one a server is started where there is none.
OPEN: Final = frozenset({ServerState.ACTIVE, ServerState.NO_SERVER})

_SAID: Final[Mapping[Status, ServerState]] = {
    Status.INITIALIZING: ServerState.INITIALIZING,
    Status.ACTIVE: ServerState.ACTIVE,
    Status.FAULT: ServerState.FAULT,
}
# The daemon is asked anew after this long at the latest, and at most this often.
ASK_EVERY_S: Final = 20.0
ASK_AGAIN_S: Final = 0.5
# In any state but an open one there is something to wait for.
ASK_UNSETTLED_S: Final = 1.0
# Longer than between two questions, all that is asked at once and one errand at its slowest.
STALE_S: Final = 40.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One look. `at` is monotonic seconds of the last answer, or try. `client_pids` None: nobody
    could say. `multiuser` None: unknown. `account`: what the logs told, of which `asked_changes`
    were known when the daemon was asked."""

    at: float
    state: ServerState = ServerState.UNKNOWN
    why: str = ""
    daemon_pid: int | None = None
    server_pid: int | None = None
    server_uid: int | None = None
    multiuser: bool | None = None
    client_pids: frozenset[int] | None = None
    account: Account = NOTHING_TOLD
    asked_changes: int = 0

    @property
    def open(self) -> bool:
        return self.state in OPEN


def said(statuses: Mapping[int, Status]) -> tuple[ServerState, int | None]:
    """The state of the gravest server, and its PID: there may be two while one user's server
    makes way for another's."""
    for grave in (Status.FAULT, Status.INITIALIZING, Status.ACTIVE):
        for pid, status in statuses.items():
            if status is grave:
                return _SAID[status], pid
    return ServerState.NO_SERVER, None


def as_of(last: Snapshot, now: float) -> Snapshot:
    """What the last look still says. That a server was open long ago says nothing; that it was
    not holds until somebody looks again."""
    if not last.open or now - last.at <= STALE_S:
        return last
    why = f"nobody has looked for {now - last.at:.0f} s"
    return replace(last, state=ServerState.SILENT, why=why, client_pids=None)


def is_worth_asking(last: Snapshot, account: Account, now: float) -> bool:
    """Whether to put questions to the daemon now. `account`: the logs as of now."""
    if account.at_fault and not last.account.at_fault:
        return True
    return now >= ask_at(last, account)


def ask_at(last: Snapshot, account: Account) -> float:
    """When it is worth asking as long as the logs tell no more than `account` (monotonic
    seconds)."""
    if account.changes != last.asked_changes:
        return last.at + ASK_AGAIN_S
    return last.at + (ASK_EVERY_S if last.open else ASK_UNSETTLED_S)
