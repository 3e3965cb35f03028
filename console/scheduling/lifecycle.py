"""The states of a job and of a placement, and how a job goes on when a placement ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from agents.wire.names import EndReason, PlacementState
from console.errors import IllegalTransition


class JobEvent(StrEnum):
    """What moves a job from one state to another."""

    PROFILE = "profile"
    ADMIT = "admit"
    PLACE = "place"
    FINISH = "finish"
    REQUEUE = "requeue"
    FAIL = "fail"
    CANCEL = "cancel"


PENDING: Final = "PENDING"
PROFILING: Final = "PROFILING"
QUEUED: Final = "QUEUED"
PLACED: Final = "PLACED"
SUCCEEDED: Final = "SUCCEEDED"
FAILED: Final = "FAILED"
CANCELLED: Final = "CANCELLED"

JOB_TRANSITIONS: Final[Mapping[tuple[str, JobEvent], str]] = {
    (PENDING, JobEvent.PROFILE): PROFILING,
    (PENDING, JobEvent.ADMIT): QUEUED,
    (PROFILING, JobEvent.ADMIT): QUEUED,
    (PROFILING, JobEvent.FINISH): SUCCEEDED,
    (PROFILING, JobEvent.REQUEUE): PENDING,
    (PROFILING, JobEvent.FAIL): FAILED,
    (QUEUED, JobEvent.PLACE): PLACED,
    (PLACED, JobEvent.FINISH): SUCCEEDED,
    (PLACED, JobEvent.REQUEUE): QUEUED,
    (PLACED, JobEvent.FAIL): FAILED,
    (PENDING, JobEvent.CANCEL): CANCELLED,
    (PROFILING, JobEvent.CANCEL): CANCELLED,
    (QUEUED, JobEvent.CANCEL): CANCELLED,
    (PLACED, JobEvent.CANCEL): CANCELLED,
}


# A placement of it is not over.
ON_A_GPU: Final = (PROFILING, PLACED)


def next_job_state(state: str, event: JobEvent, subject: str = "The job") -> str:
    """Where `event` leads. Raises IllegalTransition."""
    try:
        return JOB_TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(subject, state, event.value) from None


_P = PlacementState
LIVE: Final = tuple(state for state in PlacementState if state is not _P.ENDED)

# What a node's status may turn a placement into. It ends by an event of its own, never by a
# status, so that its outcome is told exactly once.
REPORTS: Final[Mapping[PlacementState, frozenset[PlacementState]]] = {
    _P.DESIRED: frozenset({_P.STARTING, _P.RUNNING, _P.FROZEN, _P.STOPPING}),
    _P.STARTING: frozenset({_P.RUNNING, _P.FROZEN, _P.STOPPING}),
    _P.RUNNING: frozenset({_P.FROZEN, _P.STOPPING}),
    _P.FROZEN: frozenset({_P.RUNNING, _P.STOPPING}),
    _P.STOPPING: frozenset(),
    _P.UNKNOWN: frozenset({_P.DESIRED, _P.STARTING, _P.RUNNING, _P.FROZEN, _P.STOPPING}),
    _P.ENDED: frozenset(),
}


def after_report(state: PlacementState, reported: PlacementState) -> PlacementState:
    """The state that holds once a node said `reported`; what may not follow changes nothing."""
    return reported if reported in REPORTS[state] else state


# A job that failed waits before its next try: at first this long, then twice as long each time.
RETRY_AFTER_S: Final = 30.0
RETRY_AT_MOST_S: Final = 3_600.0
# A node that could not begin is not asked again at once.
NEVER_STARTED_WAIT_S: Final = 15.0


def job_event(reason: EndReason, *, cancelled: bool, failures: int, max_retries: int) -> JobEvent:
    """How the job goes on; `failures` counts the one just reported. Done is done, even late."""
    if reason is EndReason.FINISHED:
        return JobEvent.FINISH
    if cancelled:
        return JobEvent.CANCEL
    if reason is EndReason.FAILED and failures > max_retries:
        return JobEvent.FAIL
    return JobEvent.REQUEUE


def not_before(reason: EndReason, failures: int, now: datetime) -> datetime | None:
    """When the next attempt may start; None: at once."""
    if reason is EndReason.FAILED:
        wait_s = min(RETRY_AT_MOST_S, RETRY_AFTER_S * 2 ** max(0, failures - 1))
        return now + timedelta(seconds=wait_s)
    if reason is EndReason.NEVER_STARTED:
        return now + timedelta(seconds=NEVER_STARTED_WAIT_S)
    return None


def saved_work_s(
    before_s: float, work_s: float, done_s: float | None, lost_s: float | None
) -> float:
    """What a next attempt continues from: never less than before; the unknown counts as lost."""
    if done_s is None:
        return before_s
    kept = done_s - lost_s if lost_s is not None else before_s
    return min(work_s, max(before_s, kept))
