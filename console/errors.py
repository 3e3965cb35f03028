"""What can go wrong, split by what the caller does about it.

MuxFlowError
├── Refused             the rules say no; the text says which and the way out (HTTP 409)
│   ├── IllegalTransition   a state machine does not know this step
│   └── SomebodyWasFirst    compare-and-set lost: show the fresh object
├── Invalid             the input does not fit; the text names the field (HTTP 400)
└── Unavailable         database or Redis does not answer; trying again helps (HTTP 503)
"""

from __future__ import annotations


class MuxFlowError(Exception):
    """Base of all errors that are shown to a person."""


class Refused(MuxFlowError):
    """The rules say no."""


class IllegalTransition(Refused):
    """`subject` in `state` does not know `event`; `story` tells how it came there."""

    def __init__(self, subject: str, state: str, event: str, story: str = "") -> None:
        super().__init__(f"{subject} is {state} and cannot take {event!r}. {story}".strip())
        self.subject, self.state, self.event, self.story = subject, state, event, story


class SomebodyWasFirst(Refused):
    """The row changed between reading and writing."""


class Invalid(MuxFlowError):
    """The input does not fit."""

    def __init__(self, message: str, fields: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.fields = fields or {}


class Unavailable(MuxFlowError):
    """A service that we need does not answer."""
