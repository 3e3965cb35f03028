"""The story of one fault: who faulted first, who else was hit, and how long it took. Pure.

What nobody could tell stays None, and the page says so: the driver names the guilty client only
for some faults.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from agents.mps.journal import Account

# Codes that a client gets because of another's fault, never for its own.
CONSEQUENCES: Final = frozenset({805, 806, 807, 810})
MAX_MOMENTS: Final = 64
MAX_OTHERS: Final = 64
# A code that was reported longer before the fault than this belongs to another one; and a process
# that has gone for longer was not hit.
LATELY_S: Final = 10.0
BY_LOG: Final = "the MPS server's log"
# Who runs without xCUDA reports nothing, so this is less than the server's word.
BY_REPORT: Final = "its own report, the first of those that run under xCUDA"
CUT_SHORT: Final = "nobody followed it further: "


class Victim(msgspec.Struct, frozen=True):
    """A process that was on the GPU. `side` is "offline", "online" or "unknown", `name` that of
    its online service, else of its program; `placement_id` is that of an offline job, "" of
    others."""

    pid: int
    side: str
    name: str = ""
    placement_id: str = ""


class Witness(msgspec.Struct, frozen=True):
    """A fatal code that a process of ours reported, through xCUDA, seen at `at` (unix seconds)."""

    pid: int
    code: int
    at: float
    placement_id: str


class Moment(msgspec.Struct, frozen=True):
    """What happened, so many seconds after the fault was seen."""

    after_s: float
    what: str


class Timeline(msgspec.Struct, frozen=True):
    """One fault of one GPU. `at` is when the agent saw it (unix seconds); `first` None: unknown,
    and `first_by` says who named it. `recovered_s`: until every online process was a healthy
    client again; None while it is not. `ended`: nothing more will be told."""

    fault_id: str
    gpu_uuid: str
    at: float
    why: str
    first: Victim | None = None
    first_by: str = ""
    code: int | None = None
    others: tuple[Victim, ...] = ()
    moments: tuple[Moment, ...] = ()
    recovered_s: float | None = None
    ended: bool = False


# A process that is or was on the GPU, and when it was seen there last (unix seconds).
Known = Mapping[int, tuple[Victim, float]]


def remember(
    known: Known, there: Collection[Victim], now: float
) -> dict[int, tuple[Victim, float]]:
    """With those that are there now, without those that went long ago."""
    kept = {pid: one for pid, one in known.items() if 0.0 <= now - one[1] <= LATELY_S}
    return kept | {one.pid: (one, now) for one in there}


def begin(fault_id: str, gpu_uuid: str, at: float, why: str, known: Known) -> Timeline:
    """Whoever was there may have been hit."""
    others = tuple(known[pid][0] for pid in sorted(known))[:MAX_OTHERS]
    return Timeline(fault_id, gpu_uuid, at, why, others=others, moments=(Moment(0.0, why),))


def alone(
    fault_id: str, gpu_uuid: str, at: float, why: str, witness: Witness, known: Known
) -> Timeline:
    """A fault of one job that reached nobody else, told whole when the job is gone."""
    told = begin(fault_id, gpu_uuid, at, why, {})
    first = _reporter(told, witness, known)
    return replace(told, first=first, first_by=BY_REPORT, code=witness.code, ended=True)


def learn(told: Timeline, account: Account, witnesses: Iterable[Witness], known: Known) -> Timeline:
    """With what the logs and the processes say of who it was. The server's word comes before that
    of the earliest witness; who was named stays named, unless the server names another."""
    seen = sorted(
        (one for one in witnesses if abs(told.at - one.at) <= LATELY_S), key=lambda one: one.at
    )
    first, first_by = _first(told, account, seen, known)
    own = [one.code for one in seen if one.code not in CONSEQUENCES]
    hit = account.fault.hit_pids if account.fault else ()
    there = (
        *told.others,
        *((told.first,) if told.first else ()),
        *(_victim(told, pid, known) for pid in hit),
        *(_reporter(told, one, known) for one in seen),
    )
    others = (one for one in _each_once(there) if first is None or _key(one) != _key(first))
    return replace(
        told,
        first=first,
        first_by=first_by,
        code=own[0] if told.code is None and own else told.code,
        others=tuple(others)[:MAX_OTHERS],
    )


def _first(
    told: Timeline, account: Account, witnesses: list[Witness], known: Known
) -> tuple[Victim | None, str]:
    accused, by = _accused(told, account, witnesses, known)
    if accused is None or (told.first and (told.first.pid == accused.pid or by != BY_LOG)):
        return told.first, told.first_by
    return accused, by


def _accused(
    told: Timeline, account: Account, witnesses: list[Witness], known: Known
) -> tuple[Victim | None, str]:
    if account.fault is not None and account.fault.guilty_pid is not None:
        return _victim(told, account.fault.guilty_pid, known), BY_LOG
    own = next((one for one in witnesses if one.code not in CONSEQUENCES), None)
    return (None, "") if own is None else (_reporter(told, own, known), BY_REPORT)


def _victim(told: Timeline, pid: int, known: Known) -> Victim:
    """By its number as the node counts."""
    if pid in known:
        return known[pid][0]
    return next((one for one in told.others if one.pid == pid), Victim(pid, "unknown"))


def _reporter(told: Timeline, witness: Witness, known: Known) -> Victim:
    """A job writes its own slots, and may count its processes in its own way: a number that is
    somebody else's makes nobody else the one who spoke."""
    one = _victim(told, witness.pid, known)
    if one.side != "unknown" and one.placement_id == witness.placement_id:
        return one
    return Victim(witness.pid, "offline", "", witness.placement_id)


def _each_once(victims: Iterable[Victim]) -> list[Victim]:
    """In order of their numbers, as they were named first; unknown only until somebody knows."""
    named: dict[tuple[int, str], Victim] = {}
    for one in sorted(victims, key=lambda one: one.side == "unknown"):
        named.setdefault(_key(one), one)
    pids = {one.pid for one in named.values() if one.side != "unknown"}
    kept = (one for one in named.values() if one.side != "unknown" or one.pid not in pids)
    return sorted(kept, key=_key)


def _key(victim: Victim) -> tuple[int, str]:
    return victim.pid, victim.placement_id


def add(told: Timeline, what: str, now: float) -> Timeline:
    """`now` is unix seconds. A story that has become too long keeps its beginning."""
    if told.ended or len(told.moments) >= MAX_MOMENTS:
        return told
    return replace(told, moments=(*told.moments, Moment(_after(told, now), what)))


def close(told: Timeline, now: float) -> Timeline:
    """Online is back."""
    told = add(told, "every online process is a healthy client again", now)
    return replace(told, recovered_s=_after(told, now), ended=True)


def end(told: Timeline, why: str, now: float) -> Timeline:
    """Online is not back, and this is the last that will be told."""
    return replace(add(told, why, now), ended=True)


def event(told: Timeline) -> dict[str, Any]:
    """The data of a gpu_fault event."""
    data: dict[str, Any] = msgspec.to_builtins(told)
    return {name: value for name, value in data.items() if name not in ("gpu_uuid", "at")}


def _after(told: Timeline, now: float) -> float:
    return round(max(0.0, now - told.at), 3)
