"""When must a job go for the sake of host memory? Pure.

The kernel's OOM killer would end a client of MPS with work in flight, and may take its neighbours
along. So a job goes before: when it is close to what the node gives it, or stands still for memory;
and when the host itself runs short, the job that holds most, then the next. Every number is our
choice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

GIB: Final = 1 << 30
# One look of two may meet a spike; two in a row are a second apart.
CONFIRMED_N: Final = 2
# Of the last 10 s. A job that waits for memory this long makes no progress; on the host it is
# online work that waits.
JOB_STALLED_PERCENT: Final = 50.0
HOST_STALLED_PERCENT: Final = 20.0
# Left of the host's memory: an emergency stop takes 10 s and more, in which others go on taking.
HOST_LEFT_PERCENT: Final = 6.0
# What the last job to go gave back shows by then.
RELIEF_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class GroupMemory:
    """One job. `used_bytes` without what the kernel drops by itself when it needs room; limits are
    None where there are none, `stalled_percent` (of the last 10 s) where it is not told."""

    used_bytes: int
    high_bytes: int | None = None
    max_bytes: int | None = None
    stalled_percent: float | None = None
    oom_kills: int = 0


@dataclass(frozen=True, slots=True)
class HostMemory:
    """`available_bytes` as the kernel estimates what new work can have."""

    total_bytes: int
    available_bytes: int
    stalled_percent: float | None = None


@dataclass(frozen=True, slots=True)
class Pressure:
    """What is remembered between two looks. `over` counts looks in a row in which a job was at its
    limit, `host_n` those in which the host was short. `must_go`: why, by placement; it stays said.
    """

    over: Mapping[str, int] = field(default_factory=dict)
    host_n: int = 0
    chosen_at: float = float("-inf")
    must_go: Mapping[str, str] = field(default_factory=dict)


def step(
    before: Pressure,
    groups: Mapping[str, GroupMemory],
    held: Mapping[str, int],
    host: HostMemory | None,
    now: float,
) -> Pressure:
    """`groups`: the jobs whose memory is bounded; `held`: what each job of the node holds, as far
    as that is known. A job that is in `held` no more is forgotten."""
    at_limit = {one: why for one, memory in groups.items() if (why := over_limit(memory))}
    over = {one: before.over.get(one, 0) + 1 for one in at_limit}
    must_go = {one: why for one, why in before.must_go.items() if one in held}
    for one, times in over.items():
        if times >= CONFIRMED_N:
            must_go.setdefault(one, at_limit[one])
    short = host_short(host)
    after = replace(before, over=over, host_n=before.host_n + 1 if short else 0, must_go=must_go)
    return _choose(after, held, short, now)


def over_limit(memory: GroupMemory) -> str:
    """Why the job is about to meet the OOM killer of its own group, "" when it is not."""
    if memory.high_bytes is not None and memory.used_bytes >= memory.high_bytes:
        most = memory.max_bytes or memory.high_bytes
        return (
            f"it holds {_gib(memory.used_bytes)} of the {_gib(most)} of host memory that this node"
            " gives it"
        )
    if memory.stalled_percent is not None and memory.stalled_percent >= JOB_STALLED_PERCENT:
        return f"it stood still for host memory {memory.stalled_percent:.0f} % of the last 10 s"
    return ""


def host_short(host: HostMemory | None) -> str:
    """Why memory of the whole host is short, "" when it is not."""
    if host is None:
        return ""
    if host.available_bytes * 100 < host.total_bytes * HOST_LEFT_PERCENT:
        return f"the host has {_gib(host.available_bytes)} of {_gib(host.total_bytes)} memory left"
    if host.stalled_percent is not None and host.stalled_percent >= HOST_STALLED_PERCENT:
        return f"the host stood still for memory {host.stalled_percent:.0f} % of the last 10 s"
    return ""


def oom(memory: GroupMemory) -> str:
    """What the kernel did to an ended job for want of memory, "" for nothing."""
    if memory.oom_kills == 0:
        return ""
    most = "" if memory.max_bytes is None else f": the node gives it {_gib(memory.max_bytes)}"
    return f"the kernel killed {memory.oom_kills} of its processes for want of host memory{most}"


def _choose(after: Pressure, held: Mapping[str, int], short: str, now: float) -> Pressure:
    """The job that gives back most; one at a time, as one may be enough."""
    candidates = {one: held_bytes for one, held_bytes in held.items() if one not in after.must_go}
    waits = now - after.chosen_at < RELIEF_S
    if after.host_n < CONFIRMED_N or waits or not candidates:
        return after
    largest = max(candidates, key=lambda one: (candidates[one], one))
    why = f"{short}, and of the jobs here this one holds most"
    return replace(after, chosen_at=now, must_go={**after.must_go, largest: why})


def _gib(count: int) -> str:
    return f"{count / GIB:.1f} GiB"
