"""The states of a node, and when silence counts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Event(StrEnum):
    """What moves a node from one state to another."""

    HELLO = "hello"
    SEEN = "seen"
    SILENT = "silent"
    GONE = "gone"


ENROLLED: Final = "ENROLLED"
CONNECTED: Final = "CONNECTED"
STALE: Final = "STALE"
LOST: Final = "LOST"

TRANSITIONS: Final[Mapping[tuple[str, Event], str]] = {
    (ENROLLED, Event.HELLO): CONNECTED,
    (CONNECTED, Event.HELLO): CONNECTED,
    (STALE, Event.HELLO): CONNECTED,
    (LOST, Event.HELLO): CONNECTED,
    (CONNECTED, Event.SEEN): CONNECTED,
    (STALE, Event.SEEN): CONNECTED,
    (LOST, Event.SEEN): CONNECTED,
    (CONNECTED, Event.SILENT): STALE,
    (STALE, Event.GONE): LOST,
}

# Telemetry comes once a second: ten missed in a row are no hiccup. Our choice.
STALE_AFTER_S: Final = 10.0
# A restart of agent or network is over by then; jobs are re-queued later, by lease. Our choice.
LOST_AFTER_S: Final = 30.0


def before(event: Event) -> list[str]:
    """The states that `event` really changes, for the WHERE of a compare-and-set."""
    return [state for (state, known), to in TRANSITIONS.items() if known == event and to != state]
