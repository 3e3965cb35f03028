"""What the logs of a control daemon and its server tell of clients and faults. Pure.

The texts are those of NVIDIA's documentation and of captures; they differ between drivers, so
that a line which is not understood is no error. Times are the daemon's own local ones and are
kept as text: nothing is decided by them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final

from agents.mps.answers import MAX_PID

# The most clients of one GPU, 60, and some.
MAX_CLIENTS: Final = 64


class What(Enum):
    """What one line says."""

    SERVER_STARTING = auto()
    SERVER_READY = auto()
    SERVER_EXITED = auto()
    CLIENT_WAITING = auto()
    CLIENT_CONNECTED = auto()
    CLIENT_GONE = auto()
    CLIENT_INACTIVE = auto()
    FATAL = auto()
    GUILTY = auto()
    STICKY_LIST = auto()
    DEVICE_LIST = auto()
    RECOVERED = auto()
    NUMBER = auto()


# Each text and what it says; the first that fits holds. Group 1 is a PID, group 2 a UID or code.
TEXTS: Final[tuple[tuple[What, re.Pattern[str]], ...]] = tuple(
    (what, re.compile(pattern, re.IGNORECASE))
    for what, pattern in (
        (What.SERVER_STARTING, r"starting new server (\d+) for user (\d+)"),
        (What.SERVER_READY, r"new server (\d+): ready"),
        (What.SERVER_EXITED, r"server (\d+) exited with status (-?\d+)"),
        (What.CLIENT_WAITING, r"new client (\d+) from user (\d+): server is not ready"),
        (What.CLIENT_CONNECTED, r"new client (\d+) connected"),
        (What.CLIENT_GONE, r"client (?:process )?(\d+) disconnected"),
        (What.CLIENT_INACTIVE, r"status of client \{(\d+), *\d+\} is INACTIVE"),
        (What.FATAL, r"handling a fatal gpu error|encountered a fatal exception"),
        (What.STICKY_LIST, r"following (?:clients|processes) have a sticky error"),
        (What.DEVICE_LIST, r"following devices"),
        (
            What.GUILTY,
            r"(?:client|process|pid)\W{0,3}(\d+)\b.*\b(?:memory fault|illegal|caused|faulted|"
            r"encountered a fatal)",
        ),
        (What.RECOVERED, r"server (?:has )?recovered|server is (?:now )?active"),
        (What.NUMBER, r"^\W*(\d+)\W*$"),
    )
)
_HEAD: Final = re.compile(r"^\[([\d-]{10} [\d:.]{8,15})\s+\w+\s+(\d+)\]\s*(?:volta mps:\s*)?", re.I)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fatal error as the logs tell it. `guilty_pid` None: they name nobody."""

    at: str
    guilty_pid: int | None = None
    hit_pids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Account:
    """What the lines so far add up to. `faults` counts fatal errors, `changes` everything that
    makes it worth asking the daemon again."""

    server_pid: int | None = None
    server_uid: int | None = None
    faults: int = 0
    fault: Fault | None = None
    # A server that is at fault says so before it answers a question about its state.
    at_fault: bool = False
    waiting: tuple[tuple[int, int], ...] = ()
    changes: int = 0
    listing: What | None = None


def read(account: Account, lines: Iterable[str]) -> Account:
    """The account with these lines added."""
    for line in lines:
        account = _add(account, line)
    return account


def _add(account: Account, line: str) -> Account:
    head = _HEAD.match(line)
    text = line[head.end() :] if head else line
    found = next(
        ((what, match) for what, pattern in TEXTS if (match := pattern.search(text))), None
    )
    if found is None:
        return replace(account, listing=None) if head else account
    what, match = found
    numbers = [int(group) for group in match.groups() if group and len(group) <= 10]
    return _tell(account, what, numbers, head[1] if head else "")


def _tell(account: Account, what: What, numbers: list[int], at: str) -> Account:
    pid = numbers[0] if numbers and 0 < numbers[0] <= MAX_PID else None
    if what is What.NUMBER:
        return _hit(account, pid) if account.listing is What.STICKY_LIST else account
    account = replace(account, listing=what, changes=account.changes + 1)
    match what:
        case What.SERVER_STARTING:
            uid = numbers[1] if len(numbers) > 1 else None
            return replace(account, server_pid=pid, server_uid=uid, at_fault=False)
        case What.SERVER_READY | What.RECOVERED:
            return replace(account, server_pid=pid or account.server_pid, at_fault=False)
        case What.SERVER_EXITED:
            return replace(account, server_pid=None, at_fault=False, waiting=())
        case What.CLIENT_WAITING if pid is not None and len(numbers) > 1:
            waiting = (*account.waiting, (pid, numbers[1]))[-MAX_CLIENTS:]
            return replace(account, waiting=waiting)
        case What.CLIENT_CONNECTED | What.CLIENT_GONE:
            return replace(account, waiting=tuple(w for w in account.waiting if w[0] != pid))
        case What.FATAL:
            return _fatal(account, at)
        case What.CLIENT_INACTIVE:
            return _hit(account, pid)
        case What.GUILTY:
            return _guilty(account, pid, at)
    return account


def _fatal(account: Account, at: str) -> Account:
    """Several lines tell of one fault: until the server is well again it is the same."""
    if account.at_fault:
        return account
    return replace(account, at_fault=True, faults=account.faults + 1, fault=Fault(at))


def _hit(account: Account, pid: int | None) -> Account:
    fault = account.fault
    if fault is None or pid is None or pid in fault.hit_pids or len(fault.hit_pids) >= MAX_CLIENTS:
        return account
    return replace(account, fault=replace(fault, hit_pids=(*fault.hit_pids, pid)))


def _guilty(account: Account, pid: int | None, at: str) -> Account:
    """The first to be named; the line may come before the one that tells of the fault, or when
    the server is well again."""
    fault = account.fault
    if fault is None or pid not in fault.hit_pids:
        account = _fatal(account, at)
        fault = account.fault
    if fault is None or fault.guilty_pid is not None:
        return account
    return replace(account, fault=replace(fault, guilty_pid=pid))
