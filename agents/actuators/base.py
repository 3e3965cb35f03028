"""What the reconciler asks of whatever runs the jobs, and what it hears back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from typing import Protocol

from agents.mps.control import Place
from agents.wire.messages import DesiredPlacement
from agents.wire.names import RuntimeKind


class Capability(StrEnum):
    """What a runtime can do to a job beyond starting, signalling and killing it."""

    FREEZE = "freeze"
    DUTY = "duty"
    SM_SHARE = "sm_share"
    MEMORY_QUOTA = "memory_quota"
    TERMINATE_CLIENT = "terminate_client"


class Condition(Enum):
    """Where a job is, as far as its runtime can tell."""

    STARTING = auto()
    ALIVE = auto()
    EXITED = auto()
    NEVER_RAN = auto()
    VANISHED = auto()


@dataclass(frozen=True, slots=True)
class JobFacts:
    """What is true of one job now; None where the runtime cannot know.

    `exit_code` is set once EXITED (negative for a signal). `unattended` is a job that lives while
    nobody waits for its exit status any more. Work is in GPU-seconds, progress 0..1, throughput
    in parts of what the job does alone. `checkpointed`: it saved since it was told to stop.
    `gated`, `quiesced`, `released` stay true for a runtime that cannot hold launches (see
    `stopping.Seen`). `started_ticks` is when `pid` began, in clock ticks since boot: together they
    name one process for ever, the first of the job, or what it will descend from while STARTING.

    Of a job under xCUDA: `frozen`, its launches are held; `pids`, its live processes that use
    CUDA; `coverage`, how many of those that use CUDA are under it; `unlimited`, why the job runs
    without limits, "" when it does not; `remarks`, what a person should know, a sentence each.

    `host_memory_short`: why it must go before the kernel's OOM killer comes, "" when it need not.
    `cgroup`: its own, as the kernel names it, "" without one. `step_s`: of a step lately.
    """

    condition: Condition
    exit_code: int | None = None
    why: str = ""
    pid: int | None = None
    unattended: bool = False
    memory_bytes: int | None = None
    progress: float | None = None
    work_done_s: float | None = None
    unsaved_work_s: float | None = None
    normalised_throughput: float | None = None
    checkpointed: bool = False
    gated: bool = True
    quiesced: bool = True
    released: bool = True
    started_ticks: int | None = None
    frozen: bool = False
    pids: frozenset[int] = frozenset()
    coverage: tuple[int, int] | None = None
    unlimited: str = ""
    remarks: tuple[str, ...] = ()
    host_memory_short: str = ""
    cgroup: str = ""
    step_s: float | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What in fact bounds a job, in all of its processes; None where nothing does, or not yet."""

    sm_share_percent: float | None = None
    duty_percent: float | None = None
    memory_quota_bytes: int | None = None


class StartFailed(RuntimeError):
    """The runtime could not even try; the text says why. The job never ran."""


class Clients(Protocol):
    """The MPS control daemons of a node, by the UUID of their GPU."""

    def __contains__(self, gpu_uuid: str) -> bool: ...

    def place(self, gpu_uuid: str) -> Place: ...

    def client_pids(self) -> Mapping[str, frozenset[int]]:
        """As last heard; a GPU of which nothing is known is left out. Never waits."""

    def terminate_client(self, gpu_uuid: str, pids: Iterable[int]) -> None:
        """Never waits; what is no client of that GPU's daemon is left alone."""


class Runtime(Protocol):
    """One per node. No call waits: what comes of it shows in `observe`.

    A call that needs a capability the runtime lacks does nothing.
    """

    kind: RuntimeKind
    capabilities: frozenset[Capability]

    def start(self, placement: DesiredPlacement) -> None:
        """Called once per placement id, after the intent is durable. Raises StartFailed."""

    def adopt(self, placement: DesiredPlacement) -> None:
        """Takes over what an earlier life of this agent started, or may have; `observe` tells."""

    def observe(self, placement_id: str, now: float) -> JobFacts: ...

    def limits(self, placement_id: str) -> Limits: ...

    def launches(self, placement_id: str) -> int | None:
        """How many the job has made so far; None where nothing counts them."""

    def why_no_room(self) -> str:
        """Why no job more can be started here, "" when one can; asked once a second."""

    def beat(self) -> None:
        """The agent is alive; called several times a second. Jobs are slowed, then held, without
        it."""

    def set_duty(self, placement_id: str, percent: float) -> None: ...

    def set_memory_quota(self, placement_id: str, memory_quota_bytes: int) -> None: ...

    def freeze(self, placement_id: str) -> None: ...

    def thaw(self, placement_id: str) -> None: ...

    def sigterm(self, placement_id: str, grace_s: float) -> None:
        """Asks the job to save and exit; `grace_s` is how long launches may pass for that."""

    def gate(self, placement_id: str) -> None: ...

    def quiesce(self, placement_id: str) -> None: ...

    def release(self, placement_id: str) -> None: ...

    def terminate_client(self, placement_id: str) -> None: ...

    def kill(self, placement_id: str) -> None: ...

    def forget(self, placement_id: str) -> None:
        """Frees what is kept of an ended job; its id is not named again."""
