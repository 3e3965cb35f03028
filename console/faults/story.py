"""What a node tells of one fault, read from data that nobody has checked. Pure.

Whatever does not fit is missing, too long a text is cut, too long a list keeps its beginning; only
a story without an id is no story.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from agents.wire.limits import MAX_NAME_CHARS

WHY_CHARS: Final = 300
BY_CHARS: Final = 80
# More than the 60 clients that a GPU's server takes.
MAX_PROCESSES: Final = 64
MAX_MOMENTS: Final = 64
MAX_PID: Final = 1 << 22
MAX_CODE: Final = 1 << 31
# A recovery that takes longer has failed; a longer time is a broken clock.
MAX_AFTER_S: Final = 30 * 86_400.0


class Side(StrEnum):
    """Which side a process was on."""

    ONLINE = "online"
    OFFLINE = "offline"
    UNKNOWN = "unknown"


class State(StrEnum):
    """How far the story has come."""

    RECOVERING = "RECOVERING"
    RECOVERED = "RECOVERED"
    NOT_RECOVERED = "NOT_RECOVERED"
    OVER = "OVER"


@dataclass(frozen=True, slots=True)
class Process:
    """One process that was on the GPU. `name` is a job's or a service's; "": unknown."""

    pid: int | None
    side: str
    name: str = ""
    placement_id: str | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """What happened, so many seconds after the fault was seen."""

    after_s: float
    what: str


@dataclass(frozen=True, slots=True)
class Story:
    """The `data` of a gpu_fault (agents.wire.messages.Event), as far as it can be believed."""

    id: UUID
    why: str
    first: Process | None
    first_by: str
    code: int | None
    others: tuple[Process, ...]
    moments: tuple[Moment, ...]
    recovered_s: float | None
    ended: bool


def read(data: Mapping[str, Any]) -> Story:
    """Raises ValueError when `data` names no fault."""
    return Story(
        id=_id(data.get("fault_id")),
        why=_text(data.get("why"), WHY_CHARS) or "no reason was told",
        first=_process(data.get("first")),
        first_by=_text(data.get("first_by"), BY_CHARS),
        code=_whole(data.get("code"), MAX_CODE),
        others=tuple(_processes(data.get("others"))),
        moments=tuple(_moments(data.get("moments"))),
        recovered_s=_seconds(data.get("recovered_s")),
        ended=data.get("ended") is True,
    )


def state(recovered_s: float | None, *, over: bool, online: bool) -> State:
    """`over`: nothing more will be told; `online`: an online process was among those on the GPU."""
    if recovered_s is not None:
        return State.RECOVERED
    if not over:
        return State.RECOVERING
    return State.NOT_RECOVERED if online else State.OVER


def _id(value: object) -> UUID:
    if not isinstance(value, str):
        raise ValueError("the fault has no id")
    return UUID(value)


def _processes(value: object) -> Iterator[Process]:
    for one in value[:MAX_PROCESSES] if isinstance(value, list) else ():
        if process := _process(one):
            yield process


def _process(value: object) -> Process | None:
    if not isinstance(value, dict):
        return None
    return Process(
        pid=_whole(value.get("pid"), MAX_PID),
        side=_side(value.get("side")),
        name=_text(value.get("name"), MAX_NAME_CHARS),
        placement_id=_placement(value.get("placement_id")),
    )


def _side(value: object) -> str:
    return value if isinstance(value, str) and value in set(Side) else Side.UNKNOWN.value


def _moments(value: object) -> Iterator[Moment]:
    for one in value[:MAX_MOMENTS] if isinstance(value, list) else ():
        if not isinstance(one, dict):
            continue
        after_s, what = _seconds(one.get("after_s")), _text(one.get("what"), WHY_CHARS)
        if after_s is not None and what:
            yield Moment(after_s, what)


def _text(value: object, longest: int) -> str:
    return value.strip()[:longest] if isinstance(value, str) else ""


def _whole(value: object, most: int) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 < value < most else None


def _seconds(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) and 0 <= value <= MAX_AFTER_S else None


def _placement(value: object) -> str | None:
    try:
        return str(UUID(value)) if isinstance(value, str) else None
    except ValueError:
        return None
