"""What an eviction is and what became of it, in words."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from agents.wire.names import AGENT_ORIGINS, PHASES, Origin, Phase
from console import figures, looks
from console.accounts.models import User
from console.evictions.lifecycle import State
from console.evictions.models import Eviction
from console.looks import Look

# `{who}` is a person's name, or "the rule" where nobody decided.
_STORIES: Final = {
    State.PROPOSED: "It has waited for a decision for {span}.",
    State.APPROVED: "{who} was first: approved {ago}.",
    State.DISPATCHED: "{who} was first: it was sent {ago}, and the node has been told.",
    State.STOPPING: "It has been stopping for {span}.",
    State.STUCK: "It has been stuck for {span}.",
    State.COMPLETED: "It was done {ago}.",
    State.REJECTED: "{who} was first: kept running {ago}.",
    State.EXPIRED: "Nobody decided before the deadline, so it was dropped {ago}.",
    State.SUPERSEDED: "The job ended, or a more urgent eviction took over, {ago}.",
    State.FAILED: "The stop failed {ago}, and its GPU was taken out of use.",
}


def story(eviction: Eviction, now: datetime) -> str:
    """How it stands, who did it and when: `M. Ortega was first: kept running 3 s ago.`"""
    past_s = (now - eviction.state_since).total_seconds()
    ago = figures.age(past_s) if past_s >= 1 else "just now"
    return _STORIES[State(eviction.state)].format(
        who=who(eviction), ago=ago, span=figures.span(past_s)
    )


def who(eviction: Eviction) -> str:
    """Who decided."""
    if eviction.decided_by:
        return name(eviction.decided_by)
    return "The node" if _is_of_node(eviction) else "The rule"


def _is_of_node(eviction: Eviction) -> bool:
    """Begun by the node, or made more urgent by it."""
    return eviction.by_node or eviction.origin in AGENT_ORIGINS


def name(user: User) -> str:
    return user.get_full_name() or user.get_username()


def title(eviction: Eviction) -> str:
    """`resnet-31 off node-07 / GPU 3`, `bert-09 from node-02 / GPU 1 to node-03 / GPU 0`."""
    job = eviction.placement.job
    if eviction.state == State.REJECTED:
        return f"{job} kept on {eviction.gpu}"
    if eviction.restarts:
        return f"{job} again on {eviction.gpu}"
    if eviction.to_gpu:
        return f"{job} from {eviction.gpu} to {eviction.to_gpu}"
    return f"{job} off {eviction.gpu}"


def note(eviction: Eviction) -> str:
    """The second line of a list row: where it stands, or what came of it."""
    state = State(eviction.state)
    if state is State.APPROVED:
        return f"By {_by(eviction)}; nothing has been sent yet"
    if state is State.DISPATCHED:
        return "Sent; the node has not answered yet"
    if state is State.STOPPING:
        return progress(eviction)
    if state is State.STUCK:
        return "It did not stop in its time"
    if state is State.PROPOSED:
        return eviction.why
    return outcome(eviction)


def progress(eviction: Eviction) -> str:
    """`Checkpointed; gated next`."""
    if not eviction.phase:
        return "The node began to stop it"
    reached = PHASES.index(Phase(eviction.phase))
    if reached + 1 == len(PHASES):
        return "Memory returned"
    return f"{looks.PHASES[PHASES[reached]]}; {looks.PHASES[PHASES[reached + 1]].lower()} next"


def outcome(eviction: Eviction) -> str:
    """What came of one that has ended."""
    state = State(eviction.state)
    if state is State.REJECTED:
        return f"Kept by {_by(eviction)}: {eviction.reason or 'no reason given'}"
    if state is State.EXPIRED:
        return "Nobody decided before the deadline, so it was dropped"
    if state is State.SUPERSEDED and eviction.evidence.get("withdrawn"):
        return f"Withdrawn: {eviction.evidence['withdrawn']}"
    if state is State.SUPERSEDED:
        return "The job ended first, or a more urgent eviction took over"
    if state is State.FAILED:
        return "The stop failed; its GPU was taken out of use"
    if eviction.finished_first:
        return "Finished first: nothing to stop"
    return f"{_cause(eviction)}; {_end(eviction)}"


def _cause(eviction: Eviction) -> str:
    word = look(eviction).word
    if eviction.reaction_ms is not None:
        return f"{word}, held after {figures.span(eviction.reaction_ms / 1000)}"
    if eviction.restarts:
        return "Restarted for a larger share"
    if eviction.to_gpu:
        return f"{word} to {eviction.to_gpu}"
    return f"{word}, {_by(eviction)}"


def _end(eviction: Eviction) -> str:
    return "memory returned" if eviction.phase == Phase.MEMORY_RETURNED else "the job is gone"


def _by(eviction: Eviction) -> str:
    if eviction.decided_by:
        return name(eviction.decided_by)
    return "the node" if _is_of_node(eviction) else "the rule"


def look(eviction: Eviction) -> Look:
    """Of its origin. One of origin `policy` is a person's own wish, or the node's."""
    if eviction.origin != Origin.POLICY:
        return looks.look(eviction.origin, "origin")
    return looks.look("policy", "origin")._replace(
        word="By the node" if eviction.by_node else "By hand"
    )


def origin_word(origin: str) -> str:
    """`Overload`, for a list of them."""
    return "By hand" if origin == Origin.POLICY else looks.look(origin, "origin").word
