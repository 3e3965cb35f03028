"""What an agent leaves on its node, and what of it is taken away. Pure.

The agent changes nothing of a node but what is listed here: in sharing mode observe only its own
state; MPS daemons only when a person enabled a GPU. It sets no compute mode, no clocks, no power
limit, and writes no unit and no settings file: those are a person's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

# In the state directory, beside `jobs/`.
STATE_FILES: Final = (
    "agent.sqlite3",
    "agent.sqlite3-wal",
    "agent.sqlite3-shm",
    "agent.lock",
    "status.json",
    "status.json.new",
    "hooks.json",
    "hooks.json.new",
    "off",
    "off.new",
)


@dataclass(frozen=True, slots=True)
class DaemonFacts:
    """The MPS control daemon of one GPU. `clients`: their number, None where nobody can tell."""

    gpu_uuid: str
    clients: int | None


@dataclass(frozen=True, slots=True)
class Found:
    """What is on the node now. Paths are those that exist."""

    agent_pid: int | None = None
    live_jobs: tuple[str, ...] = ()
    waiting_events: int = 0
    daemons: tuple[DaemonFacts, ...] = ()
    mps_places: tuple[Path, ...] = ()
    jobs: tuple[Path, ...] = ()
    state_files: tuple[Path, ...] = ()
    credentials: Path | None = None
    directories: tuple[Path, ...] = ()
    strangers: tuple[Path, ...] = ()
    recording: Path | None = None
    ring: Path | None = None


class Act(StrEnum):
    QUIT_DAEMON = "end the MPS control daemon of GPU"
    REMOVE_TREE = "remove all of"
    REMOVE_FILE = "remove"
    REMOVE_EMPTY = "remove the then empty"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to undo. `what` is a GPU's UUID or a path."""

    act: Act
    what: str
    why: str

    def __str__(self) -> str:
        return f"{self.act} {self.what}: {self.why}"


@dataclass(frozen=True, slots=True)
class Plan:
    """`obstacles` must go first, and a person removes them; `kept` says what stays, and why."""

    obstacles: tuple[str, ...]
    steps: tuple[Step, ...]
    kept: tuple[str, ...]


def plan(found: Found) -> Plan:
    return Plan(tuple(_obstacles(found)), tuple(_steps(found)), tuple(_kept(found)))


def _obstacles(found: Found) -> Iterator[str]:
    if found.agent_pid is not None:
        yield (
            f"the agent (PID {found.agent_pid}) runs: muxflow-agent off, wait until its jobs have"
            " ended, then stop it (systemctl stop muxflow-agent)"
        )
    if found.live_jobs:
        yield (
            f"{len(found.live_jobs)} jobs still run ({', '.join(found.live_jobs[:3])}): start the"
            " agent again, say muxflow-agent off, and wait until they have saved their work"
        )


def _steps(found: Found) -> Iterator[Step]:
    for daemon in found.daemons:
        if daemon.clients == 0:
            yield Step(Act.QUIT_DAEMON, daemon.gpu_uuid, "it has no clients")
    busy = _busy(found.daemons)
    for place in found.mps_places:
        if place.name not in busy:
            yield Step(Act.REMOVE_TREE, str(place), "pipe and logs of an MPS control daemon")
    for job in found.jobs:
        yield Step(Act.REMOVE_TREE, str(job), "command, log and exit status of an ended job")
    for file in found.state_files:
        yield Step(Act.REMOVE_FILE, str(file), "state of the agent")
    if found.ring is not None:
        yield Step(Act.REMOVE_TREE, str(found.ring), "what was measured in the last two hours")
    if found.credentials is not None:
        yield Step(Act.REMOVE_FILE, str(found.credentials), "identity of this node")
    for directory in found.directories:
        yield Step(Act.REMOVE_EMPTY, str(directory), "made by the agent")


def _busy(daemons: Collection[DaemonFacts]) -> frozenset[str]:
    return frozenset(one.gpu_uuid for one in daemons if one.clients != 0)


def _kept(found: Found) -> Iterator[str]:
    for daemon in found.daemons:
        if daemon.clients != 0:
            clients = "clients that nobody can count" if daemon.clients is None else "clients"
            number = "" if daemon.clients is None else f"{daemon.clients} "
            yield (
                f"the MPS control daemon of GPU {daemon.gpu_uuid}: its {number}{clients} would die"
                f" with it; later: muxflow-agent mps disable --gpu {daemon.gpu_uuid}"
            )
    for path in found.strangers:
        yield f"{path}: not made by the agent"
    if found.recording is not None:
        yield f"{found.recording}: a recording that was asked for"
    if found.waiting_events:
        yield f"nothing of {found.waiting_events} events that the console has not been told"
