"""Online processes that start, exit and make way for each other on a shared GPU. Pure.

Offline work is frozen from the moment an online process appears that is no healthy client yet,
until every one is, and has been for a moment. A process that never becomes a client runs beside
MPS, by turns with all that is in it: then the GPU is shareable no more and offline work leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

# A new client is trusted after this: it has loaded its model's first bytes without a fault.
SETTLE_S: Final = 3.0
# From the first sight of a process to its place in the client list: loading a large model comes
# before the first CUDA call in many servers, and after it in others.
JOIN_S: Final = 120.0


class Stance(StrEnum):
    """What holds for offline work on a GPU, as far as arrivals go."""

    OPEN = "every online process is a healthy client"
    HELD = "an online process is on its way: offline work is frozen"
    CLOSED = "an online process runs without MPS: offline work leaves, and none starts"


class Seen(StrEnum):
    """What one look at the online side says; the gravest holds."""

    WELL = "all are clients of an ACTIVE server, the same as before, or there are none"
    CHANGED = "a client came or went"
    OUTSIDE = "a process is no client of the server"
    UNREADY = "the server is not ACTIVE, or nobody can say who is there"


@dataclass(frozen=True, slots=True)
class Online:
    """One look. None: nobody can say."""

    pids: frozenset[int] | None
    client_pids: frozenset[int] | None
    server_open: bool


@dataclass(frozen=True, slots=True)
class Arrivals:
    """`since` is when the stance, or the wait within it, began (monotonic seconds);
    `outside_since` when the process that is no client was first seen."""

    stance: Stance = Stance.HELD
    since: float | None = None
    outside_since: float | None = None
    pids: frozenset[int] = frozenset()
    why: str = "nobody has looked yet"


# What a look leads to. HELD begins anew with every change; it ends after SETTLE_S of WELL, and
# OUTSIDE closes the GPU after JOIN_S.
STANCES: Final[Mapping[tuple[Stance, Seen], Stance]] = {
    (Stance.OPEN, Seen.WELL): Stance.OPEN,
    (Stance.OPEN, Seen.CHANGED): Stance.HELD,
    (Stance.OPEN, Seen.OUTSIDE): Stance.HELD,
    (Stance.OPEN, Seen.UNREADY): Stance.HELD,
    (Stance.HELD, Seen.WELL): Stance.HELD,
    (Stance.HELD, Seen.CHANGED): Stance.HELD,
    (Stance.HELD, Seen.OUTSIDE): Stance.HELD,
    (Stance.HELD, Seen.UNREADY): Stance.HELD,
    (Stance.CLOSED, Seen.WELL): Stance.HELD,
    (Stance.CLOSED, Seen.CHANGED): Stance.HELD,
    (Stance.CLOSED, Seen.OUTSIDE): Stance.CLOSED,
    (Stance.CLOSED, Seen.UNREADY): Stance.CLOSED,
}


def step(arrivals: Arrivals, online: Online, now: float) -> Arrivals:
    """The stance after this look."""
    seen = look(arrivals, online)
    outside_since = _outside_since(arrivals, seen, now)
    stance, since = STANCES[arrivals.stance, seen], arrivals.since
    if stance is not arrivals.stance or seen is not Seen.WELL or since is None:
        since = now
    if stance is Stance.HELD and seen is Seen.WELL and now - since >= SETTLE_S:
        stance = Stance.OPEN
    if outside_since is not None and now - outside_since >= JOIN_S:
        stance = Stance.CLOSED
    pids = arrivals.pids if online.pids is None else online.pids
    return Arrivals(stance, since, outside_since, pids, _why(stance, seen, online))


def look(arrivals: Arrivals, online: Online) -> Seen:
    """An exit alone is no reason to hold: those that are left are as healthy as before."""
    if online.pids is None or online.client_pids is None or not online.server_open:
        return Seen.UNREADY
    if online.pids - online.client_pids:
        return Seen.OUTSIDE
    return Seen.CHANGED if online.pids - arrivals.pids else Seen.WELL


def _outside_since(arrivals: Arrivals, seen: Seen, now: float) -> float | None:
    """A look that says nothing of clients does not end the wait."""
    if seen is Seen.OUTSIDE:
        return now if arrivals.outside_since is None else arrivals.outside_since
    return arrivals.outside_since if seen is Seen.UNREADY else None


def _why(stance: Stance, seen: Seen, online: Online) -> str:
    if stance is Stance.OPEN:
        return ""
    if seen is Seen.OUTSIDE and online.pids and online.client_pids is not None:
        return f"PID {min(online.pids - online.client_pids)} is no client of the MPS server"
    if seen is Seen.UNREADY:
        return "the MPS server is not ready, or nobody can say who its clients are"
    return "a new online process has just become a client"


def forget(arrivals: Arrivals) -> Arrivals:
    """After the server was restarted: everyone must prove itself anew."""
    return replace(arrivals, stance=Stance.HELD, since=None, outside_since=None)
