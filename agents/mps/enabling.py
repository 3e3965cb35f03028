"""The procedure by which a GPU is made ready to be shared, and the one that undoes it. Pure.

Nothing of the procedure is remembered: which steps are done follows from what is true, so that a
restart of the agent, a person who does a step by hand and a step that comes undone all show at
once. A step is done only when those before it are. What the agent does by itself is to look; what
changes the node is said to be a person's, and `muxflow-agent mps enable` does no more than the
step that is marked as its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agents.mps.health import ServerState
from agents.mps.shareable import (
    MENDED_BY_ENABLING,
    Fact,
    OnlineProcess,
    Sharing,
    forbidding,
)

# All online processes must have been clients of an ACTIVE server for so long: one that starts
# with MPS and dies of it would otherwise count.
VERIFY_S: Final = 10.0


class Stage(StrEnum):
    """How far a GPU is; each is the first step that is not done."""

    FORBIDDEN = "something forbids sharing that enabling does not mend"
    WITHOUT_DAEMON = "its own control daemon must be started"
    RESTARTS_DUE = "online instances must be restarted once, as clients of the daemon"
    VERIFYING = "all online processes are clients; they are watched for a while"
    ENABLED = "offline work may come"


class Who(StrEnum):
    """Who does a step."""

    AGENT = "the agent, by looking"
    COMMAND = "muxflow-agent mps enable"
    PERSON = "whoever runs the online service"


@dataclass(frozen=True, slots=True)
class Readiness:
    """What the procedure depends on. `settled_s`: for how long every online process has been a
    client of an ACTIVE server without a break."""

    sharing: Sharing
    settled_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One line of the list that a person sees. `left`: what is still in its way."""

    title: str
    who: Who
    done: bool
    left: str = ""
    restart: tuple[OnlineProcess, ...] = ()


def _unmended(ready: Readiness) -> str:
    """The server's state is the business of the last step."""
    held = (verdict for verdict in forbidding(ready.sharing) if verdict.fact is not Fact.SERVER)
    return next(
        (str(verdict.sentence) for verdict in held if verdict.fact not in MENDED_BY_ENABLING), ""
    )


def _daemon(ready: Readiness) -> str:
    missing = ready.sharing.mps.state is ServerState.NO_DAEMON
    return "no control daemon answers" if missing else ""


def _restarts(ready: Readiness) -> str:
    strangers = ready.sharing.strangers
    return f"{len(strangers)} to restart" if strangers else ""


def _verified(ready: Readiness) -> str:
    if not ready.sharing.mps.open:
        return f"the server is not ready: {ready.sharing.mps.state}"
    left_s = VERIFY_S - ready.settled_s
    return f"{left_s:.0f} s to go" if ready.sharing.online and left_s > 0 else ""


# The procedure: what is missing ("" when the step is done), and the stage while it is.
STEPS: Final[tuple[tuple[str, Who, Callable[[Readiness], str], Stage], ...]] = (
    ("Nothing but MPS forbids sharing", Who.AGENT, _unmended, Stage.FORBIDDEN),
    ("A control daemon of its own serves the GPU", Who.COMMAND, _daemon, Stage.WITHOUT_DAEMON),
    (
        "Each online instance was restarted once, with the daemon's pipe directory",
        Who.PERSON,
        _restarts,
        Stage.RESTARTS_DUE,
    ),
    (
        f"The client list holds every online process, for {VERIFY_S:.0f} s",
        Who.AGENT,
        _verified,
        Stage.VERIFYING,
    ),
)


def steps(ready: Readiness) -> tuple[Step, ...]:
    """The list, in order; a step behind one that is not done is not done either."""
    told: list[Step] = []
    for title, who, missing, stage in STEPS:
        left = missing(ready)
        done = not left and all(step.done for step in told)
        restart = ready.sharing.strangers if stage is Stage.RESTARTS_DUE else ()
        told.append(Step(title, who, done, left, restart))
    return tuple(told)


def stage(ready: Readiness) -> Stage:
    for *_, missing, stage in STEPS:
        if missing(ready):
            return stage
    return Stage.ENABLED


def admits(ready: Readiness) -> bool:
    """Whether offline work may start: never before the last step is done."""
    return stage(ready) is Stage.ENABLED


def why_not_quit(sharing: Sharing, offline_pids: frozenset[int], *, approved: bool) -> str:
    """What forbids to end the daemon, "" when nothing does. Its end is the end of its clients, so
    it goes only without any, or with a person's word."""
    if offline_pids & sharing.clients:
        return "offline jobs still run on this GPU: `muxflow-agent off --gpu` stops them first"
    mps, online = sharing.mps, sharing.clients - offline_pids
    if mps.client_pids is None and mps.state is not ServerState.NO_DAEMON and not approved:
        return f"nobody can say who its clients are ({mps.why or mps.state}): say --approved"
    if online and not approved:
        return (
            f"{len(online)} online clients would die with the daemon: stop them first, or say"
            " --approved"
        )
    return ""
