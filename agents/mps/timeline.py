"""The story of one fault: who faulted first, who else was hit, and how long it took. Pure.

What nobody could tell stays None, and the page says so: the driver names the guilty client only
for some faults.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from agents.mps.journal import Account
from agents.mps.recovery import Act, Stage

# Codes that a client gets because of another's fault, never for its own.
CONSEQUENCES: Final = frozenset({805, 806, 807, 810})
MAX_MOMENTS: Final = 64


class Victim(msgspec.Struct, frozen=True):
    """A process that was on the GPU. `name` is a job's or a service's, `side` "offline" or
    "online"."""

    pid: int
    side: str
    name: str = ""


class Witness(msgspec.Struct, frozen=True):
    """A fatal code that a process reported, through xCUDA, at `at` (unix seconds)."""

    pid: int
    code: int
    at: float


class Moment(msgspec.Struct, frozen=True):
    """What happened, so many seconds after the fault was seen."""

    after_s: float
    what: str


class Timeline(msgspec.Struct, frozen=True):
    """One fault of one GPU. `at` is when the agent saw it (unix seconds); `first` None: unknown,
    and `first_by` says who named it. `recovered_s`: until every online process was a healthy
    client again; None while it is not."""

    gpu_uuid: str
    at: float
    why: str
    first: Victim | None = None
    first_by: str = ""
    code: int | None = None
    others: tuple[Victim, ...] = ()
    moments: tuple[Moment, ...] = ()
    recovered_s: float | None = None


def begin(
    gpu_uuid: str,
    at: float,
    why: str,
    account: Account,
    witnesses: Iterable[Witness],
    known: Mapping[int, Victim],
) -> Timeline:
    """`known` are the processes that were on the GPU, by PID. The server's word on who it was
    comes before that of the earliest witness."""
    seen = sorted(witnesses, key=lambda one: one.at)
    first_pid, first_by = _first(account, seen)
    code = next((one.code for one in seen if one.code not in CONSEQUENCES), None)
    hit = set(account.fault.hit_pids) if account.fault else set()
    pids = (hit | set(known) | {one.pid for one in seen}) - {first_pid}
    return Timeline(
        gpu_uuid,
        at,
        why,
        None if first_pid is None else _victim(first_pid, known),
        first_by,
        code,
        tuple(_victim(pid, known) for pid in sorted(pids)),
        (Moment(0.0, why),),
    )


def _first(account: Account, witnesses: list[Witness]) -> tuple[int | None, str]:
    if account.fault is not None and account.fault.guilty_pid is not None:
        return account.fault.guilty_pid, "the MPS server's log"
    own = [one for one in witnesses if one.code not in CONSEQUENCES]
    if not own:
        return None, ""
    return own[0].pid, "the first to report it"


def _victim(pid: int, known: Mapping[int, Victim]) -> Victim:
    return known.get(pid, Victim(pid, "unknown"))


def add(timeline: Timeline, what: Stage | Act | str, now: float) -> Timeline:
    """`now` is unix seconds. A story that has become too long keeps its beginning."""
    if len(timeline.moments) >= MAX_MOMENTS:
        return timeline
    moment = Moment(_after(timeline, now), str(what))
    return replace(timeline, moments=(*timeline.moments, moment))


def close(timeline: Timeline, now: float) -> Timeline:
    """Online is back."""
    told = add(timeline, "every online process is a healthy client again", now)
    return replace(told, recovered_s=_after(timeline, now))


def _after(timeline: Timeline, now: float) -> float:
    return round(max(0.0, now - timeline.at), 3)
