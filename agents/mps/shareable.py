"""Whether a GPU may be shared, from facts: yes, or the one sentence that forbids it. Pure.

The rules are one table, in the order in which a person must deal with them: what no setting can
change, then what belongs to the node, then what the enabling procedure mends. The first that
holds is told, with its way out. A fact that nobody can tell forbids where it would be unsafe to
guess, and says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from agents.mps.health import ServerState, Snapshot

GIB: Final = 1 << 30
# CUDA 12.0 came with driver 525: from there on MPS knows client priorities, pinned memory limits
# and terminate_client, and cuGetProcAddress has the form that xCUDA answers. Our choice.
MIN_DRIVER: Final = 525
# Volta: each client has an address space of its own. Before it a fault killed the server.
MIN_CAPABILITY: Final = (7, 0)
# Contexts of one GPU, by driver: 60 since CUDA 13.1 (driver 590), 48 before it (NVIDIA: MPS).
MAX_CLIENTS, MAX_CLIENTS_590 = 48, 60
# A rolling update holds old and new instances at once, and a job may have several processes.
SPARE_CLIENTS: Final = 8
# An offline job that is worth its context, and what always stays free for the online side.
LEAST_OFFLINE_BYTES: Final = 4 * GIB
RESERVE_PART: Final = 0.05


class Fact(StrEnum):
    """What forbids to share a GPU."""

    CARD = "card"
    MIG = "mig"
    ARCHITECTURE = "architecture"
    DRIVER = "driver"
    COMPUTE_MODE = "compute_mode"
    PROCESSES_UNKNOWN = "processes_unknown"
    SM_ACTIVITY = "sm_activity"
    MEMORY_TAKEN = "memory_taken"
    DAEMON_CLOSED = "daemon_closed"
    UIDS_DIFFER = "uids_differ"
    JOB_UID = "job_uid"
    CLIENTS_FULL = "clients_full"
    NOT_A_CLIENT = "not_a_client"
    NO_DAEMON = "no_daemon"
    SERVER = "server"


# What a person's `muxflow-agent mps enable` puts right.
MENDED_BY_ENABLING: Final = frozenset({Fact.NOT_A_CLIENT, Fact.NO_DAEMON})


@dataclass(frozen=True, slots=True)
class OnlineProcess:
    """A process on the GPU that is not ours. `uid` None: unknown. `mps`: the driver says that it
    is a client of some MPS server."""

    pid: int
    uid: int | None = None
    name: str = ""
    mps: bool = False

    def __str__(self) -> str:
        return f"{self.name or 'process'} (PID {self.pid})"


@dataclass(frozen=True, slots=True)
class CardFacts:
    """One GPU as it is now; None where nobody can tell. `wrong` is what makes the card itself
    unfit, in words, "" when nothing does. `online` None: its processes cannot be listed."""

    uuid: str
    driver: str = ""
    mig: bool | None = None
    capability: tuple[int, int] | None = None
    compute_mode: str = ""
    memory_bytes: int | None = None
    used_bytes: int | None = None
    offline_bytes: int = 0
    sm_activity_source: str = ""
    online: tuple[OnlineProcess, ...] | None = None
    wrong: str = ""


@dataclass(frozen=True, slots=True)
class Sharing:
    """All that a verdict depends on. `job_uid`: as whom offline jobs run here, None where that is
    left to the job."""

    card: CardFacts
    mps: Snapshot
    job_uid: int | None = None

    @property
    def online(self) -> tuple[OnlineProcess, ...]:
        return self.card.online or ()

    @property
    def clients(self) -> frozenset[int]:
        return self.mps.client_pids or frozenset()

    @property
    def strangers(self) -> tuple[OnlineProcess, ...]:
        """Online processes that are no clients of the daemon."""
        return tuple(one for one in self.online if one.pid not in self.clients)


@dataclass(frozen=True, slots=True)
class Verdict:
    """`fact` None: the GPU may be shared. `sentence` names the fact, `way_out` what to do."""

    fact: Fact | None = None
    sentence: str = ""
    way_out: str = ""

    @property
    def shareable(self) -> bool:
        return self.fact is None

    @property
    def mended_by_enabling(self) -> bool:
        return self.fact in MENDED_BY_ENABLING

    def __str__(self) -> str:
        return f"not shareable: {self.sentence}" if self.fact else "shareable"


Rule = Callable[[Sharing], str]


def judge(sharing: Sharing) -> Verdict:
    """The first rule that holds, or a GPU that may be shared."""
    return next(forbidding(sharing), Verdict())


def forbidding(sharing: Sharing) -> Iterator[Verdict]:
    """Every rule that holds, gravest first."""
    for fact, rule, way_out in RULES:
        if sentence := rule(sharing):
            yield Verdict(fact, sentence, way_out)


def _card(sharing: Sharing) -> str:
    return sharing.card.wrong


def _mig(sharing: Sharing) -> str:
    if sharing.card.mig is None:
        return "nobody can tell whether MIG is on"
    return "MIG is on: hardware has divided this GPU already" if sharing.card.mig else ""


def _architecture(sharing: Sharing) -> str:
    capability = sharing.card.capability
    if capability is None:
        return "nobody can tell its compute capability"
    if capability >= MIN_CAPABILITY:
        return ""
    return (
        f"it is of compute capability {capability[0]}.{capability[1]}: before 7.0 (Volta) a fault"
        " of one MPS client ends the server and all others"
    )


def _driver(sharing: Sharing) -> str:
    major = driver_major(sharing.card.driver)
    if major is None:
        return f"its driver version is unknown ({sharing.card.driver!r})"
    if major < MIN_DRIVER:
        return f"its driver is {sharing.card.driver}, and {MIN_DRIVER} is the oldest that will do"
    return ""


def _compute_mode(sharing: Sharing) -> str:
    """Exclusive-process suits MPS: the one process is its server. See `_not_a_client`."""
    if sharing.card.compute_mode not in ("prohibited", "exclusive_thread"):
        return ""
    return f"its compute mode is {sharing.card.compute_mode.replace('_', ' ')}"


def _processes_unknown(sharing: Sharing) -> str:
    return "" if sharing.card.online is not None else "its processes cannot be listed"


def _sm_activity(sharing: Sharing) -> str:
    return "" if sharing.card.sm_activity_source else "nothing here tells its SM activity"


def _memory_taken(sharing: Sharing) -> str:
    total, used = sharing.card.memory_bytes, sharing.card.used_bytes
    if total is None or used is None:
        return "nobody can tell how much of its memory is in use"
    taken = used - sharing.card.offline_bytes
    if total - taken - RESERVE_PART * total >= LEAST_OFFLINE_BYTES:
        return ""
    return (
        f"its memory is taken: {taken / GIB:.1f} of {total / GIB:.1f} GiB are in use, and an"
        f" offline job needs {LEAST_OFFLINE_BYTES / GIB:.0f} GiB beside the reserve of"
        f" {RESERVE_PART:.0%}"
    )


def _daemon_closed(sharing: Sharing) -> str:
    if sharing.mps.state is not ServerState.UNKNOWN:
        return ""
    return sharing.mps.why or "its MPS control daemon has not been asked yet"


def _uids_differ(sharing: Sharing) -> str:
    """One user's server makes another user's client wait until all of its own have left."""
    if sharing.mps.multiuser:
        return ""
    uids = {one.uid for one in sharing.online if one.uid is not None}
    if len(uids) > 1:
        return f"its online processes run as different users (UIDs {_listed(uids)})"
    server = sharing.mps.server_uid
    if server is not None and uids and uids != {server}:
        return f"its MPS server runs for UID {server} and its online process as UID {_listed(uids)}"
    if waiting := sharing.mps.account.waiting:
        pid, uid = waiting[-1]
        return f"PID {pid} of UID {uid} waits in vain for an MPS server that serves UID {server}"
    return ""


def _job_uid(sharing: Sharing) -> str:
    if sharing.mps.multiuser or sharing.job_uid is None:
        return ""
    users = {one.uid for one in sharing.online if one.uid is not None}
    if sharing.mps.server_uid is not None:
        users.add(sharing.mps.server_uid)
    if not users or users == {sharing.job_uid}:
        return ""
    return (
        f"offline jobs run as UID {sharing.job_uid}, and its MPS server serves UID"
        f" {_listed(users)} alone"
    )


def _clients_full(sharing: Sharing) -> str:
    most = max_clients(sharing.card.driver)
    there = len(sharing.clients)
    if there + SPARE_CLIENTS <= most:
        return ""
    return f"it has {there} MPS clients of at most {most}, and {SPARE_CLIENTS} must stay free"


def _not_a_client(sharing: Sharing) -> str:
    """In exclusive-process mode such a process keeps even the server out."""
    strangers = sharing.strangers
    if not strangers:
        return ""
    more = f" and {len(strangers) - 1} more run" if len(strangers) > 1 else " runs"
    how = "as client of another MPS daemon" if strangers[0].mps else "without MPS"
    exclusive = sharing.card.compute_mode == "exclusive_process"
    alone = ", and its compute mode (exclusive process) lets no second MPS server start"
    return f"{strangers[0]}{more} on it {how}{alone if exclusive else ''}"


def _no_daemon(sharing: Sharing) -> str:
    if sharing.mps.state is not ServerState.NO_DAEMON:
        return ""
    return "no MPS control daemon of its own serves it"


def _server(sharing: Sharing) -> str:
    if sharing.mps.open or sharing.mps.state in (ServerState.NO_DAEMON, ServerState.UNKNOWN):
        return ""
    return f"its MPS is not ready: {sharing.mps.state}"


# Fact, when it holds (a sentence, "" when it does not), and the way out.
RULES: Final[tuple[tuple[Fact, Rule, str], ...]] = (
    (Fact.CARD, _card, "repair or replace the card, or leave this GPU at observe"),
    (Fact.MIG, _mig, "switch it off with `nvidia-smi -mig 0`, or leave this GPU at observe"),
    (Fact.ARCHITECTURE, _architecture, "leave this GPU at observe; no setting helps"),
    (Fact.DRIVER, _driver, f"install driver {MIN_DRIVER} or newer on this node"),
    (
        Fact.COMPUTE_MODE,
        _compute_mode,
        "set it with `nvidia-smi -c DEFAULT` (or EXCLUSIVE_PROCESS) while nothing runs on it",
    ),
    (
        Fact.PROCESSES_UNKNOWN,
        _processes_unknown,
        "run the agent in the host's PID namespace, with access to NVML",
    ),
    (
        Fact.SM_ACTIVITY,
        _sm_activity,
        "a Hopper or newer GPU tells it by itself; for others run dcgm-exporter on this node",
    ),
    (
        Fact.MEMORY_TAKEN,
        _memory_taken,
        "lower what the online service reserves (vLLM: --gpu-memory-utilization), then look again",
    ),
    (
        Fact.DAEMON_CLOSED,
        _daemon_closed,
        "run the agent as root, or as the user that started the daemon",
    ),
    (
        Fact.UIDS_DIFFER,
        _uids_differ,
        "enable the GPU with --multiuser, or run all of them as one user",
    ),
    (
        Fact.JOB_UID,
        _job_uid,
        "run offline jobs as that user (`job_user` of the node), or enable the GPU with"
        " --multiuser",
    ),
    (Fact.CLIENTS_FULL, _clients_full, "run fewer processes on it"),
    (
        Fact.NOT_A_CLIENT,
        _not_a_client,
        "enable the GPU with `muxflow-agent mps enable`, and restart that instance once with"
        " its pipe directory",
    ),
    (Fact.NO_DAEMON, _no_daemon, "enable the GPU with `muxflow-agent mps enable`"),
    (Fact.SERVER, _server, "wait; docs/mps.md tells what each state leads to"),
)


def driver_major(version: str) -> int | None:
    """595 of "595.71.05"; None for what is no version."""
    match = re.match(r"^(\d{2,4})\.\d", version)
    return None if match is None else int(match[1])


def max_clients(driver: str) -> int:
    return MAX_CLIENTS_590 if (driver_major(driver) or 0) >= 590 else MAX_CLIENTS


def _listed(uids: set[int]) -> str:
    return ", ".join(str(uid) for uid in sorted(uids))
