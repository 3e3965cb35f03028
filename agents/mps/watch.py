"""One thread per GPU that keeps the latest view of its MPS, and runs commands for the agent.

The agent's loop reads `snapshot` and posts `errands`; it never waits for a daemon. On each of its
samples it rings: a thread sleeps until there is an errand, or a ring finds something new.
"""

from __future__ import annotations

import contextlib
import logging
import math
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

from agents.complaints import Complaints
from agents.containment import Containment
from agents.mps import health, journal
from agents.mps.answers import BadAnswer, Refused, Status
from agents.mps.control import Control, ControlFailed, NoDaemon, TooLate
from agents.mps.health import ServerState, Snapshot
from agents.mps.journal import Account
from agents.mps.tail import Tail
from agents.mps.unit import find

log = logging.getLogger(__name__)

# What waits to be done for a daemon that hangs; more than that is not worth keeping.
MAX_ERRANDS: Final = 64
# The state of a server whose logs are quiet is asked for so often, its name at each turn.
ALL_EVERY_S: Final = 60.0


class Watch:
    """The view of one GPU's MPS, kept fresh by `look`."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self._logs = (Tail(control.place.control_log), Tail(control.place.server_log))
        self.snapshot = Snapshot(at=float("-inf"))
        self._all_asked_at = float("-inf")
        # A log grew faster than it is read.
        self.has_more = False

    def look(self, now: float) -> Snapshot:
        """Reads the logs, and asks the daemon where that is worth it. Never raises for what a
        daemon says or does not say."""
        account = self._told(self.snapshot.account)
        if health.is_worth_asking(self.snapshot, account, now):
            # What the daemon finds only when it is asked, its logs tell afterwards.
            asked = self._unchanged(account, now) or self._ask(account, now)
            self.snapshot = replace(asked, account=self._told(asked.account))
        elif account is not self.snapshot.account:
            self.snapshot = replace(self.snapshot, account=account)
        return self.snapshot

    def has_news(self) -> bool:
        """Whether a log has lines that no look has read."""
        return any(each.has_news() for each in self._logs)

    def _told(self, account: Account) -> Account:
        for each in self._logs:
            account = journal.read(account, each.lines())
        self.has_more = any(each.more for each in self._logs)
        return account

    def terminate(self, client_pid: int) -> None:
        """Ends one client of ours on whichever server has it. Raises as `Control.ask`."""
        for server in self.control.ask(self.control.dialect.servers()):
            if client_pid in self.control.ask(self.control.dialect.client_pids(server)):
                self.control.terminate_client(server, client_pid)

    def close(self) -> None:
        for each in self._logs:
            each.close()

    def _unchanged(self, account: Account, now: float) -> Snapshot | None:
        """The last answers, when the daemon lives, has the same server and its logs, which are
        read, told nothing since: one question instead of three. None: all are to be asked."""
        last = self.snapshot
        if not last.open or not account.changes or account.changes != last.asked_changes:
            return None
        if now - self._all_asked_at >= ALL_EVERY_S:
            return None
        try:
            servers = self.control.ask(self.control.dialect.servers())
        except (ControlFailed, BadAnswer):
            return None
        is_same = tuple(servers) == (() if last.server_pid is None else (last.server_pid,))
        return replace(last, at=now, account=account) if is_same else None

    def _ask(self, account: Account, now: float) -> Snapshot:
        self._all_asked_at = now
        try:
            try:
                statuses, clients = self._answers()
            except Refused:  # a server that went between two questions
                statuses, clients = self._answers()
        except (ControlFailed, BadAnswer) as failure:
            state = ServerState.FAULT if account.at_fault else _unanswered(failure)
            return Snapshot(
                now, state, str(failure), account=account, asked_changes=account.changes
            )
        return self._answered(statuses, clients, account, now)

    def _answers(self) -> tuple[dict[int, Status], frozenset[int]]:
        ask, dialect = self.control.ask, self.control.dialect
        statuses = {pid: ask(dialect.status(pid)) for pid in ask(dialect.servers())}
        clients = (ask(dialect.client_pids(server)) for server in statuses)
        return statuses, frozenset(pid for pids in clients for pid in pids)

    def _answered(
        self, statuses: dict[int, Status], clients: frozenset[int], account: Account, now: float
    ) -> Snapshot:
        state, server = health.said(statuses)
        if state is not ServerState.FAULT:
            account = replace(account, at_fault=False)
        daemon = find(self.control.place)
        return Snapshot(
            now,
            state,
            str(state),
            None if daemon is None else daemon.pid,
            server,
            None if server is None else uid_of(server),
            None if daemon is None else daemon.multiuser,
            clients,
            account,
            account.changes,
        )


def _unanswered(failure: Exception) -> ServerState:
    if isinstance(failure, NoDaemon):
        return ServerState.NO_DAEMON
    return ServerState.SILENT if isinstance(failure, TooLate) else ServerState.UNKNOWN


def uid_of(pid: int) -> int | None:
    """Whose process it is; None when it is gone or hidden."""
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return None


class Watcher:
    """The thread around a `Watch`. It ends with the process and holds nothing up."""

    def __init__(
        self,
        watch: Watch,
        clock: Callable[[], float] = time.monotonic,
        looked: Callable[[], None] = lambda: None,
    ) -> None:
        """`looked` is called by the thread after each look."""
        self.watch, self._clock, self._looked = watch, clock, looked
        self._errands: queue.Queue[Callable[[Watch], None] | None] = queue.Queue(MAX_ERRANDS)
        self._complaints = Complaints()
        self._contained = Containment(f"mps {watch.control.place.gpu_uuid}")
        # Whether a look at the logs is due, or waits until the thread has time for it.
        self._changed = True
        self._is_at_work = False
        self._thread = threading.Thread(
            target=self._run, name=f"mps {watch.control.place.gpu_uuid}", daemon=True
        )

    @property
    def snapshot(self) -> Snapshot:
        return self.watch.snapshot

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns at once; the thread ends after the command it is in."""
        self._post(None)

    @property
    def has_more(self) -> bool:
        """Whether there is something to read although no log has changed since."""
        return self._changed or self.watch.has_more

    def is_to_ask(self) -> bool:
        """Whether it is time to ask the daemon, and the thread has time for it."""
        return self._clock() >= self._ask_at() and self._is_free()

    def quiet_until(self) -> float:
        """Before that nothing is to be done here unless a log changes, or the thread looks by
        itself (monotonic seconds)."""
        return self._ask_at() if self._is_free() and not self.has_more else -math.inf

    def _ask_at(self) -> float:
        seen = self.watch.snapshot
        return health.ask_at(seen, seen.account)

    def _is_free(self) -> bool:
        return not self._is_at_work and self._errands.empty()

    def ring(self, *, changed: bool = True, ask: bool = True) -> None:
        """Lets the thread look where a log has changed, or where it is time to ask the daemon.
        `changed`: the folder of the logs may have; `ask`: it is this daemon's turn."""
        self._changed = (self._changed or changed) and self.watch.has_news()
        if (self.has_more and self._is_free()) or (ask and self.is_to_ask()):
            self._changed = False
            self._post(_nothing_but_a_look)

    def terminate(self, client_pid: int) -> None:
        """Soon, in order; what comes of it shows in the client list."""
        self.do(lambda watch: watch.terminate(client_pid))

    def do(self, errand: Callable[[Watch], None]) -> None:
        """Soon, on the watcher's thread, in order. What it raises as a `Control` is logged."""
        self._post(errand)

    def do_instead(self, errand: Callable[[Watch], None]) -> None:
        """In place of all that waits: it ends the clients that the others are about."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._errands.get_nowait()
        self._post(errand)

    def _post(self, errand: Callable[[Watch], None] | None) -> None:
        try:
            self._errands.put_nowait(errand)
        except queue.Full:
            self._complain("its daemon hangs and too many commands wait")

    def _run(self) -> None:
        errand: Callable[[Watch], None] | None = _nothing_but_a_look
        while errand is not None:
            self._is_at_work = True
            with self._contained:
                self._do(errand)
            with self._contained:
                self.watch.look(self._clock())
            self._is_at_work = False
            self._looked()
            errand = self._errands.get()
        self.watch.close()

    def _do(self, errand: Callable[[Watch], None]) -> None:
        try:
            errand(self.watch)
        except (ControlFailed, BadAnswer) as failure:
            self._complain(str(failure))

    def _complain(self, text: str) -> None:
        if self._complaints.due(text):
            log.warning("%s: %s", self._thread.name, text)


def _nothing_but_a_look(_watch: Watch) -> None:
    """The thread looks after each errand."""
