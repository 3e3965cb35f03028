"""Every message between console and agent. Fields are only ever appended, with a default.

Agent to console: `Hello`, `Telemetry` or `PackedTelemetry`, `Status`, `EventBatch`, `Backfill`.
Console to agent: `Welcome`, `Envelope` (holding `DesiredState` or `Unchanged`), `EventAck`,
`BackfillAck`.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from agents.wire.names import (
    Checkpoint,
    EndReason,
    EventKind,
    GpuState,
    Origin,
    Phase,
    PlacementState,
    RuntimeKind,
    SharingMode,
)
from agents.wire.policy import AgentPolicy
from agents.wire.values import Bytes, Count, Name, Number, Text


class Message(msgspec.Struct, frozen=True, array_like=True):
    """Base of all messages: a tagged array, so that a new field is a longer array."""


# --- agent to console -------------------------------------------------------------------


class GpuInventory(Message, frozen=True):
    """One GPU as the node sees it. `index` is its place in this node's telemetry samples."""

    index: int
    uuid: Name
    model: Name
    memory_bytes: Bytes
    driver: Name = ""
    sm_clock_max_mhz: Number | None = None
    power_limit_w: Number | None = None
    source: Name = "simulated"
    unshareable_fact: Text = ""
    pcie_max_bytes_s: Number | None = None


class Hello(Message, frozen=True, tag="hello"):
    """First message on a connection."""

    node: Name
    protocol: tuple[int, int]
    agent_version: Name
    boot_id: Name
    generation: Count
    nonce: Name
    runtime: RuntimeKind
    gpus: tuple[GpuInventory, ...]
    capabilities: tuple[Name, ...] = ()
    last_event_seq: Count = 0
    cpu_cores: Number | None = None
    host_memory_bytes: Bytes | None = None


class GpuSample(Message, frozen=True):
    """One second of one GPU: values in the order of `names.SIGNALS`, None where missing.

    `worst` is the worst value of the second per signal. `sm_online` and `sm_offline` are the
    percent of SM activity attributed to each side. `headroom_percent` is the distance to the
    nearest eviction threshold. `state` is the index in `names.GPU_STATES`. `facts` is what else
    SysMonitor was told (`sysmonitor.recording.FactBit`); `step_s` is the time since the sample
    before that it counted as watched, None when it gave no verdict.
    """

    index: int
    state: int
    last: tuple[float | None, ...]
    worst: tuple[float | None, ...]
    sm_online_percent: float | None = None
    sm_offline_percent: float | None = None
    duty_percent: float | None = None
    headroom_percent: float | None = None
    nearest_signal: int | None = None
    online_processes: int | None = None
    offline_processes: int = 0
    online_memory_bytes: int | None = None
    offline_memory_bytes: int | None = None
    facts: Count = 0
    step_s: Number | None = None


class Telemetry(Message, frozen=True, tag="telemetry"):
    """All GPUs of a node at one moment; `number` counts seconds since the agent's start."""

    number: int
    sent_at: float
    samples: tuple[GpuSample, ...]


class PackedTelemetry(Message, frozen=True, tag="packed"):
    """`Telemetry` as one block of doubles, from protocol 2 on; `packed.py` says how."""

    number: int
    sent_at: float
    fields: Count
    signals: Count
    rows: bytes


class Samples(Message, frozen=True):
    """Some seconds of telemetry as one block; `samples.py` says how.

    `numbers` and `times` are those of the seconds, as in `Telemetry`: ascending, with gaps where
    nothing was recorded. In each second there are `gpus` rows of `fields` + 2 × `signals` floats.
    """

    numbers: tuple[Count, ...]
    times: tuple[Number, ...]
    gpus: Count
    fields: Count
    signals: Count
    deflated: bytes


class Backfill(Message, frozen=True, tag="backfill"):
    """What a node recorded while nobody heard it, oldest first; no more than
    `limits.MAX_BACKFILL_SECONDS`. The next follows on the `BackfillAck` of this one, and without
    it the same comes again: whoever stores it must bear that."""

    blocks: tuple[Samples, ...]


class PlacementStatus(Message, frozen=True):
    """What is true of one placement on the node now. Progress is 0..1; work in GPU-seconds.

    The limits are those in effect: what every process of the job has taken over. `xcuda_coverage`
    is the number of its processes under xCUDA, of those that use CUDA. `remarks` are sentences
    for a person.
    """

    placement_id: Name
    state: PlacementState
    sm_share_percent: Number | None = None
    duty_percent: Number | None = None
    memory_quota_bytes: Bytes | None = None
    memory_bytes: Bytes | None = None
    progress: Number | None = None
    normalised_throughput: Number | None = None
    work_done_s: Number | None = None
    unsaved_work_s: Number | None = None
    phase: Phase | None = None
    end_reason: EndReason | None = None
    xcuda_coverage: tuple[int, int] | None = None
    remarks: tuple[Text, ...] = ()


class GpuStatus(Message, frozen=True):
    """SysMonitor's view of one GPU, with the sentence that explains it."""

    index: int
    state: GpuState
    since: Number
    why: Text = ""
    mode: SharingMode = SharingMode.OBSERVE
    unshareable_fact: Text = ""
    cooldown_s: Number = 0.0
    degraded: tuple[Name, ...] = ()


class Status(Message, frozen=True, tag="status"):
    """What the agent observes and has applied; its nonce is echoed by the lease renewal."""

    nonce: Name
    observed_generation: Count
    policy_versions: dict[Name, Count]
    gpus: tuple[GpuStatus, ...]
    placements: tuple[PlacementStatus, ...]
    lease_left_s: Number | None = None
    refused: Text = ""


class Event(Message, frozen=True):
    """One fact, kept until acknowledged. `data` by kind:

    transition: {from, to, why, signal, value, limit, samples, facts, after}; frozen / thawed: {why,
    reaction_ms}; placement_started: {pid}; placement_ended: {reason: EndReason, exit_code,
    lost_work_s, progress, work_done_s, signalled, why, remarks, avoid: Avoid}; eviction_started:
    {origin, why, signal, value, limit, reaction_ms, window}; eviction_phase: {phase, lost_work_s,
    memory_bytes}; eviction_stuck: {why}; eviction_proposed: {origin, why, signal, value, limit}, a
    wish of this node that the console decides; eviction_failed: {why}; degraded: {missing};
    gap: {dropped};
    gpu_fault: {fault_id, why, first, first_by, code, others, moments, recovered_s, ended};
    job_profiled: {window_s, samples, gpu_util_percent, sm_percent, occupancy_percent,
    memory_bandwidth_percent, memory_bytes, step_s, launches_per_s}, what the job did while it was
    alone on its GPU, None where no source told.

    A gpu_fault tells a fault that reached every client of a GPU's MPS server, or, without `others`,
    one of `first` alone. It is told when it is seen and again, with the same fault_id, when its
    story goes on; the latest holds. `first` and each of `others` is {pid, side, name,
    placement_id}; `first` None: unknown. `moments` are {after_s, what}. `recovered_s`: until every
    online process was a healthy client again. `ended`: nothing more will be told.

    Values and limits are in policy units. `samples` are the local samples of a move that no wire
    sample made, `facts` as in `GpuSample`, `after` the number of the telemetry before it. An
    eviction_started that names an open eviction escalates it; its `window` are the last seconds of
    the GPU before it (`samples.of_event`).
    """

    seq: int
    event_id: str
    kind: EventKind
    at: float
    gpu_index: int | None = None
    placement_id: str | None = None
    eviction_id: str | None = None
    data: dict[str, Any] = {}


class EventBatch(Message, frozen=True, tag="events"):
    """Events in order of `seq`; acknowledged by `EventAck` after the database commit.

    They follow directly on `after_seq`: whoever lacks that one lacks events in between, stores
    none of these, and gets all of them again. None: of an agent that does not say.
    """

    events: tuple[Event, ...]
    after_seq: Count | None = None


# --- console to agent -------------------------------------------------------------------


class Welcome(Message, frozen=True, tag="welcome"):
    """Answer to `Hello`. `history_after`: of the telemetry that was recorded after this time a
    back-fill is wanted; None: this console takes none. It is by the node's clock, or by that of
    `server_time` where the two are more than `limits.MAX_SKEW_S` apart."""

    protocol: int
    server_time: float
    acked_seq: int
    history_after: Number | None = None


class BackfillAck(Message, frozen=True, tag="backfill_ack"):
    """All telemetry up to this time, by the node's clock, is stored or not wanted."""

    until: Number


class EventAck(Message, frozen=True, tag="event_ack"):
    """All events up to and including `seq` are durable."""

    seq: int


class Stop(Message, frozen=True):
    """Take this placement off its GPU through the ordinary stop."""

    eviction_id: str
    reason: str
    grace_s: float
    origin: Origin


class Profile(Message, frozen=True):
    """What a job needs and does, as measured alone on the GPU model named. Percent of a card.

    `step_s` is the time of one step; `source` says where the figures come from, "" where nobody
    told.
    """

    name: str
    sm_percent: float
    gpu_util_percent: float
    memory_bytes: int
    memory_bandwidth_percent: float
    work_s: float
    gpu_model: str = ""
    step_s: float | None = None
    source: str = ""


class Measure(Message, frozen=True):
    """A job is to be measured while it is alone on its GPU: over `window_s`, begun `settle_s`
    after it first ran there undisturbed."""

    settle_s: float
    window_s: float


class DesiredPlacement(Message, frozen=True):
    """One placement that should run, or stop when `stop` is set.

    Limits: the SM share is fixed at client start, duty changes any moment. `resume_work_s` is
    the checkpointed work to continue from.
    """

    placement_id: str
    job_id: str
    job_name: str
    gpu_index: int
    sm_share_percent: float
    memory_quota_bytes: int
    profile: Profile
    checkpoint: Checkpoint = Checkpoint.ON_SIGTERM
    checkpoint_period_s: float = 600.0
    resume_work_s: float = 0.0
    command: tuple[str, ...] = ()
    duty_percent: float | None = None
    stop: Stop | None = None
    measure: Measure | None = None


class DesiredService(Message, frozen=True):
    """An online service on this node; only names and targets, never commands."""

    name: str
    gpu_index: int
    slo_p99_ms: float | None = None
    metrics_url: str = ""
    profile: Profile | None = None
    load_qps: float | None = None


class DesiredGpu(Message, frozen=True):
    """What should hold for one GPU."""

    index: int
    mode: SharingMode
    policy: str
    disabled: bool = False
    disabled_reason: str = ""


class DesiredState(Message, frozen=True, tag="desired"):
    """All that should be true of one node. `policies` is keyed by the name `DesiredGpu` uses."""

    generation: int
    nonce: str
    lease_s: float
    gpus: tuple[DesiredGpu, ...]
    policies: dict[str, AgentPolicy]
    placements: tuple[DesiredPlacement, ...]
    services: tuple[DesiredService, ...] = ()
    cordoned: bool = False


class Unchanged(Message, frozen=True, tag="unchanged"):
    """Renews the lease of the state with this generation."""

    generation: int
    nonce: str
    lease_s: float


class Envelope(Message, frozen=True, tag="envelope"):
    """Signed bytes of a `DesiredState` or `Unchanged`: verified first, then decoded."""

    key_id: str
    payload: bytes
    mac: bytes


FromAgent: TypeAlias = Hello | Telemetry | PackedTelemetry | Status | EventBatch | Backfill
FromConsole: TypeAlias = Welcome | EventAck | Envelope | BackfillAck
Signed: TypeAlias = DesiredState | Unchanged
