"""What happened to a job, told to its owner in plain words. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from agents.wire.names import AGENT_ORIGINS, Origin
from console import figures
from console.evictions.lifecycle import UNDECIDED, UNDER_WAY, State


@dataclass(frozen=True)
class Removal:
    """One take-off of a job. `lost_work_s` None: not known; `decided_by` empty: a rule did."""

    job: str
    gpu: str
    to_gpu: str
    origin: str
    state: str
    at: datetime
    why: str
    reason: str
    decided_by: str
    reaction_ms: float | None
    lost_work_s: float | None
    checkpoint: bool
    finished_first: bool
    by_node: bool = False


# What each origin means for the owner. `{because}` is the recorded reason, `{who}` who decided.
_BECAUSE: Final = {
    Origin.OVERLOAD: "The online work on that GPU needed it: {because}. Online work goes first.",
    Origin.EMERGENCY: "Something on that GPU could not wait: {because}.",
    Origin.SLO: "The online service beside it missed its latency target even with the job slowed"
    " down: {because}.",
    Origin.MOVE: "A round planned to move it: {because}.",
    Origin.PREEMPT: "A job of higher priority needed the GPU: {because}.",
    Origin.DRAIN: "{who} is emptying the node: {because}.",
    Origin.POLICY: "{who} took it off by hand: {because}.",
    Origin.STOP_SHARING: "{who} stopped sharing there: {because}.",
    Origin.CANCEL: "{who} cancelled it: {because}.",
}
_BY_NODE: Final = "Its node took it off by itself: {because}."
_DROPPED: Final = (State.REJECTED, State.EXPIRED, State.SUPERSEDED)


def subject(removal: Removal) -> str:
    """`Taken off node-07 / GPU 3`."""
    if removal.finished_first:
        return f"Finished on {removal.gpu} before it was taken off"
    if removal.state in UNDECIDED:
        return f"May be taken off {removal.gpu}"
    if removal.state in _DROPPED:
        return f"Stayed on {removal.gpu}"
    if removal.state in UNDER_WAY:
        return f"Is being taken off {removal.gpu}"
    if removal.state == State.FAILED:
        return f"Could not be stopped on {removal.gpu}"
    return f"Taken off {removal.gpu}"


def body(removal: Removal) -> list[str]:
    """The sentences below the subject: why, what it cost, what was tried."""
    sentences = [_because(removal)]
    if removal.reaction_ms is not None:
        held = figures.span(removal.reaction_ms / 1000)
        sentences.append(f"It was held {held} after the first sample over the limit.")
    sentences.append(_cost(removal))
    return [sentence for sentence in sentences if sentence]


def outlook(state: str, position: int | None, gpu: str) -> str:
    """What becomes of the job now, and what its owner has to do."""
    if state == "QUEUED":
        place = f", at place {position}" if position else ""
        return (
            f"The job waits in the queue{place}, and goes on from its last checkpoint."
            " You need do nothing."
        )
    if state == "PLACED":
        return f"The job runs on {gpu} now. You need do nothing." if gpu else "The job is placed."
    return {
        "PENDING": "The job waits for a free GPU to be measured on. You need do nothing.",
        "PROFILING": "The job runs on a GPU of its own and is measured. You need do nothing.",
        "SUCCEEDED": "The job has finished since.",
        "FAILED": "The job has failed since; it is not tried again.",
        "CANCELLED": "The job is cancelled and does not come back.",
    }.get(state, "The job is not queued yet.")


def _because(removal: Removal) -> str:
    if removal.state == State.SUPERSEDED:
        return "The job ended first, or something more urgent took over."
    because = removal.reason or removal.why or "no reason was given"
    if removal.origin == Origin.MOVE and removal.why:
        because = removal.why
    if removal.to_gpu == removal.gpu:
        return f"A restart on the same GPU makes it faster: {because.rstrip('.')}."
    own_wish = removal.by_node and removal.origin not in AGENT_ORIGINS
    sentence = _BY_NODE if own_wish else _BECAUSE[Origin(removal.origin)]
    return sentence.format(because=because.rstrip("."), who=removal.decided_by or "A rule")


def _cost(removal: Removal) -> str:
    if removal.state in (*UNDECIDED, *_DROPPED, *UNDER_WAY) or removal.finished_first:
        return ""
    if removal.lost_work_s is None:
        return "How much work was lost is not known."
    if removal.lost_work_s <= 0:
        return "It saved its work first; nothing was lost."
    lost = figures.span(removal.lost_work_s)
    if not removal.checkpoint:
        return f"It saves no work by itself, so {lost} of work was lost."
    return f"{lost[0].upper()}{lost[1:]} of work since its last checkpoint was lost."
