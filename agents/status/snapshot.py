"""What an agent says of itself to those on its node: the content of the status file. Pure."""

from __future__ import annotations

from typing import Final

import msgspec

from agents.collectors.attribution import Side
from agents.wire.names import GpuState, Phase, PlacementState, SharingMode, Signal

FILE_NAME: Final = "status.json"


class SignalView(msgspec.Struct, frozen=True):
    """One value in the unit named, where it came from and how old it is; or why it is missing."""

    signal: Signal
    unit: str
    value: float | None = None
    source: str = ""
    age_s: float | None = None
    why: str = ""


class ProcessView(msgspec.Struct, frozen=True):
    """A process on a GPU: whose side it is on, and by which name people know it. `workload` is
    the online pod, `placement_id` the job, "" where it is none."""

    pid: int
    side: Side
    name: str
    workload: str
    placement_id: str
    memory_bytes: int | None
    mps: bool


class GpuView(msgspec.Struct, frozen=True):
    """One GPU. `since` is Unix time; `headroom_percent` the distance to the nearest threshold.
    `processes` None: nobody can list them. `throttled`: why its clock is lowered."""

    index: int
    uuid: str
    model: str
    state: GpuState
    since: float
    why: str
    mode: SharingMode
    unshareable: str
    headroom_percent: float | None
    nearest_signal: Signal | None
    cooldown_s: float
    degraded: tuple[Signal, ...]
    signals: tuple[SignalView, ...]
    processes: tuple[ProcessView, ...] | None = None
    throttled: tuple[str, ...] = ()


class SourceView(msgspec.Struct, frozen=True):
    """How one collector did when it was asked last."""

    name: str
    success: bool
    duration_s: float | None
    age_s: float | None
    why: str


class PlacementView(msgspec.Struct, frozen=True):
    """A job that has not ended, and what in fact bounds it; None where nothing does."""

    placement_id: str
    job: str
    gpu_index: int
    state: PlacementState
    phase: Phase | None
    why: str
    sm_share_percent: float | None
    duty_percent: float | None
    memory_quota_bytes: int | None
    memory_bytes: int | None
    progress: float | None


class LinkView(msgspec.Struct, frozen=True):
    """The connection to the console. `reconnects` since this process began."""

    up: bool
    reconnects: int
    complaint: str


class SpoolView(msgspec.Struct, frozen=True):
    """Events that the console has not taken yet, and those that had no room any more."""

    waiting: int
    gaps: int
    dropped: int


class NodeView(msgspec.Struct, frozen=True):
    name: str
    generation: int
    policy_versions: dict[str, int]
    lease_left_s: float
    refusal: str
    samples: int
    gpus: tuple[GpuView, ...]
    sources: tuple[SourceView, ...]
    placements: tuple[PlacementView, ...]
    link: LinkView
    spool: SpoolView


class Snapshot(msgspec.Struct, frozen=True):
    """All nodes of one process, at Unix time `at`; the next comes within `period_s`."""

    version: str
    pid: int
    at: float
    period_s: float
    started_at: float
    nodes: tuple[NodeView, ...]


_decoder: msgspec.json.Decoder[Snapshot] = msgspec.json.Decoder(Snapshot)


def encode(snapshot: Snapshot) -> bytes:
    return msgspec.json.encode(snapshot)


def decode(data: bytes) -> Snapshot:
    """Raises msgspec.DecodeError."""
    return _decoder.decode(data)
