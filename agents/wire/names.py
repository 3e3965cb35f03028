"""The names that both ends of the protocol, the pages and the documents share."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Signal(StrEnum):
    """One measured quantity of one GPU; its unit is in `UNITS`."""

    GPU_UTIL = "gpu_util"
    SM_ACTIVITY = "sm_activity"
    SM_OCCUPANCY = "sm_occupancy"
    MEMORY_BANDWIDTH = "memory_bandwidth"
    SM_CLOCK = "sm_clock"
    MEMORY = "memory"
    PCIE_RX = "pcie_rx"
    TEMPERATURE = "temperature"
    POWER = "power"
    XID = "xid"
    ONLINE_P99 = "online_p99"
    ONLINE_QPS = "online_qps"


# The order of values in every telemetry sample; only ever appended to.
SIGNALS: Final[tuple[Signal, ...]] = tuple(Signal)

UNITS: Final[dict[Signal, str]] = {
    Signal.GPU_UTIL: "%",
    Signal.SM_ACTIVITY: "%",
    Signal.SM_OCCUPANCY: "%",
    Signal.MEMORY_BANDWIDTH: "%",
    Signal.SM_CLOCK: "MHz",
    Signal.MEMORY: "bytes",
    Signal.PCIE_RX: "bytes/s",
    Signal.TEMPERATURE: "°C",
    Signal.POWER: "W",
    Signal.XID: "code",
    Signal.ONLINE_P99: "ms",
    Signal.ONLINE_QPS: "1/s",
}


class GpuState(StrEnum):
    """SysMonitor's state of one GPU."""

    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    GUARDED = "GUARDED"
    OVERLIMIT = "OVERLIMIT"
    COOLDOWN = "COOLDOWN"
    DISABLED = "DISABLED"


# The order is the code that telemetry samples and browser frames carry.
GPU_STATES: Final[tuple[GpuState, ...]] = tuple(GpuState)


class SharingMode(StrEnum):
    """What may be done on a GPU; the lower of the pool's and the GPU's own mode holds."""

    OFF = "off"
    OBSERVE = "observe"
    SHADOW = "shadow"
    ENFORCE = "enforce"


SHARING_MODES: Final[tuple[SharingMode, ...]] = tuple(SharingMode)


class PlacementState(StrEnum):
    """One attempt of a job on a GPU."""

    DESIRED = "DESIRED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FROZEN = "FROZEN"
    STOPPING = "STOPPING"
    UNKNOWN = "UNKNOWN"
    ENDED = "ENDED"


class EndReason(StrEnum):
    """Why a placement ended."""

    FINISHED = "finished"
    FAILED = "failed"
    EVICTED = "evicted"
    LOST = "lost"
    LEASE_EXPIRED = "lease_expired"
    NEVER_STARTED = "never_started"


class Phase(StrEnum):
    """The stop sequence; a phase can be skipped, never reordered."""

    ACCEPTED = "ACCEPTED"
    SIGNALLED = "SIGNALLED"
    CHECKPOINTED = "CHECKPOINTED"
    GATED = "GATED"
    QUIESCED = "QUIESCED"
    RELEASED = "RELEASED"
    GONE = "GONE"
    MEMORY_RETURNED = "MEMORY_RETURNED"


PHASES: Final[tuple[Phase, ...]] = tuple(Phase)


class Origin(StrEnum):
    """Who or what wanted a running job off its GPU."""

    EMERGENCY = "emergency"
    OVERLOAD = "overload"
    SLO = "slo"
    MOVE = "move"
    PREEMPT = "preempt"
    DRAIN = "drain"
    POLICY = "policy"
    STOP_SHARING = "stop_sharing"
    CANCEL = "cancel"


# Origins that the agent decides by itself; all others are decided by the console.
AGENT_ORIGINS: Final = frozenset({Origin.EMERGENCY, Origin.OVERLOAD})


class EventKind(StrEnum):
    """What an agent's event tells; `data` of each kind is described in `messages.Event`."""

    TRANSITION = "transition"
    FROZEN = "frozen"
    THAWED = "thawed"
    PLACEMENT_STARTED = "placement_started"
    PLACEMENT_ENDED = "placement_ended"
    EVICTION_STARTED = "eviction_started"
    EVICTION_PHASE = "eviction_phase"
    EVICTION_STUCK = "eviction_stuck"
    DEGRADED = "degraded"
    GAP = "gap"
    EVICTION_PROPOSED = "eviction_proposed"
    EVICTION_FAILED = "eviction_failed"
    GPU_FAULT = "gpu_fault"
    JOB_PROFILED = "job_profiled"


# Terminal outcomes are never dropped from a full spool.
TERMINAL_EVENTS: Final = frozenset(
    {
        EventKind.PLACEMENT_ENDED,
        EventKind.EVICTION_STARTED,
        EventKind.EVICTION_FAILED,
        EventKind.GPU_FAULT,
        EventKind.JOB_PROFILED,
    }
)


class Avoid(StrEnum):
    """Where a job that was taken off had better not come back to soon, as far as its node knows."""

    GPU = "gpu"
    NODE = "node"


class Checkpoint(StrEnum):
    """How a job saves its work when it is told to stop."""

    NONE = "none"
    ON_SIGTERM = "on_sigterm"


class RuntimeKind(StrEnum):
    """What runs the job on the node."""

    SIMULATED = "simulated"
    PROCESS = "process"
