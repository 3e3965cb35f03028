"""How what the agent wants of a job reads in its control block. Pure: limits in, limits out.

Once a job was told to leave (mode EXIT) nothing lets its launches pass again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final
from uuid import UUID

from agents.control_block import NO_LIMIT_PERMILLE, Limits, Mode
from agents.wire import limits as bounds
from agents.wire.messages import DesiredPlacement
from agents.wire.names import Checkpoint

# The agent shuts the window. A process does so itself, this much later, when the agent is gone:
# so a window that a process was the first to end was ended by the job, which had saved.
WINDOW_MARGIN_S: Final = 2.0
PERMILLE_PER_PERCENT: Final = 10


def first(placement: DesiredPlacement, grace_s: float, inflight_cap: int | None = None) -> Limits:
    """Before the first word of SysMonitor: the quota holds, and launches pass at the floor duty.

    `grace_s` is for a stop that nobody announces, as when the node is shut down; `inflight_cap`
    how many launches of each process may wait on the device, None: as many as there are.
    """
    exit_ms = round((bounds.QUIESCE_S + bounds.RELEASE_S) * 1_000)
    start = Limits(exit_ms=exit_ms, inflight_cap=inflight_cap)
    start = replace(start, duty_permille=start.floor_duty_permille)
    start = with_quota(start, placement.memory_quota_bytes)
    return with_grace(start, 0.0 if placement.checkpoint is Checkpoint.NONE else grace_s)


def with_quota(limits: Limits, memory_quota_bytes: int) -> Limits:
    return replace(limits, memory_quota_bytes=memory_quota_bytes or None)


def with_duty(limits: Limits, percent: float, *, told: bool) -> Limits:
    """`told`: SIGTERM was sent. What is set from then on is the duty of its window too."""
    permille = max(1, min(NO_LIMIT_PERMILLE, round(percent * PERMILLE_PER_PERCENT)))
    floor = permille if told else limits.floor_duty_permille
    return replace(limits, duty_permille=permille, floor_duty_permille=floor)


def with_grace(limits: Limits, grace_s: float) -> Limits:
    """The window that a process opens at SIGTERM; none for 0."""
    grace_ms = round((grace_s + WINDOW_MARGIN_S) * 1_000) if grace_s > 0.0 else 0
    return replace(limits, grace_ms=grace_ms)


def frozen(limits: Limits) -> Limits:
    if limits.mode is Mode.EXIT:
        return limits
    return replace(limits, mode=Mode.FREEZE, window_open=False)


def thawed(limits: Limits, *, told: bool) -> Limits:
    """One that was told to stop while frozen gets its window, and nothing else."""
    if limits.mode is not Mode.FREEZE:
        return limits
    return replace(limits, window_open=True) if told else replace(limits, mode=Mode.RUN)


def leaving(limits: Limits) -> Limits:
    """Each process gates, quiesces, releases and exits, in this order and by itself."""
    return replace(limits, mode=Mode.EXIT)


def after(
    placement: DesiredPlacement, grace_s: float, kept: Limits, inflight_cap: int | None = None
) -> Limits:
    """What an earlier life of this agent wrote last, where a job must not notice its death; duty
    starts anew from the floor, as for a new job."""
    fresh = first(placement, grace_s, inflight_cap)
    return replace(fresh, mode=kept.mode, window_open=kept.window_open, grace_ms=kept.grace_ms)


def for_each(limits: Limits, processes: int) -> Limits:
    """What is written for `limits` of the job: the quota is counted for all of its processes
    together, and duty by each of them, so each gets its part."""
    parts = max(1, processes)
    return replace(
        limits,
        duty_permille=max(1, limits.duty_permille // parts),
        safe_duty_permille=max(1, limits.safe_duty_permille // parts),
        floor_duty_permille=max(1, limits.floor_duty_permille // parts),
    )


def is_frozen(limits: Limits) -> bool:
    return limits.mode is Mode.FREEZE and not limits.window_open


def generation_of(placement_id: str) -> int:
    """Of its block: no two placements have files that fit together. Half of a UUID, 64 bits."""
    return UUID(placement_id).int >> 64
