"""What became of an eviction, and who did it, in words."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from agents.wire.names import AGENT_ORIGINS
from console import figures
from console.accounts.models import User
from console.evictions.lifecycle import State
from console.evictions.models import Eviction

# `{who}` is a person's name, or "the rule" where nobody decided.
_STORIES: Final = {
    State.PROPOSED: "It waits for a decision since {ago}.",
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
    return _STORIES[State(eviction.state)].format(
        who=who(eviction), ago=figures.age(past_s), span=figures.span(past_s)
    )


def who(eviction: Eviction) -> str:
    """Who decided."""
    if eviction.decided_by:
        return name(eviction.decided_by)
    return "The node" if eviction.origin in AGENT_ORIGINS else "The rule"


def name(user: User) -> str:
    return user.get_full_name() or user.get_username()
