"""What the series of the fleet are made of, as the database and the live grid tell it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from console.telemetry.latest import Grid


class GpuRow(NamedTuple):
    id: int
    uuid: str
    slot: int
    model: str
    driver: str
    memory_bytes: int
    node: str
    pool: str


class NodeRow(NamedTuple):
    name: str
    pool: str
    state: str
    source: str
    agent_version: str
    cordoned: bool
    draining: bool
    behind: int | None  # generations; None: it never reported
    last_seen_at: float | None  # Unix s


class PoolRow(NamedTuple):
    name: str
    sharing_mode: str
    policy: str | None
    policy_version: int | None


class ServiceRow(NamedTuple):
    name: str
    pool: str
    tier: int
    slo_p99_ms: float | None


class PoolSample(NamedTuple):
    """The newest fleet sample of a pool; GPU-seconds of the world clock."""

    pool: str
    equivalent_gpus: float
    equivalent_gpu_s_total: float
    lost_work_s_total: float
    restart_s_total: float


class RoundRow(NamedTuple):
    kind: str
    state: str
    times: int
    last_at: float | None  # Unix s


class LeaseRow(NamedTuple):
    name: str
    held: bool
    taken: int  # times, so far
    until: float  # Unix s; what was given back keeps the time that it was taken until


@dataclass(frozen=True)
class FleetFacts:
    """`gpus` ascend by id; `grid` has the samples of some of them."""

    now: float  # Unix s
    grid: Grid
    gpus: Sequence[GpuRow] = ()
    nodes: Sequence[NodeRow] = ()
    pools: Sequence[PoolRow] = ()
    services: Sequence[ServiceRow] = ()
    instances: Sequence[tuple[int, str]] = ()  # GPU id, service
    samples: Sequence[PoolSample] = ()
    # Completed, by GPU id (retired ones too), pool and origin.
    evictions: Mapping[tuple[int, str, str], int] = field(default_factory=dict)
    open_evictions: Mapping[tuple[str, str], int] = field(default_factory=dict)  # pool, state
    placements: Mapping[tuple[str, str], int] = field(default_factory=dict)  # pool, state
    freezes: Mapping[str, int] = field(default_factory=dict)  # pool
    faults: Mapping[str, int] = field(default_factory=dict)  # pool
    jobs: Mapping[str, int] = field(default_factory=dict)  # state
    rounds: Sequence[RoundRow] = ()
    leases: Sequence[LeaseRow] = ()
    waiting: Sequence[tuple[str, int | None]] = ()  # messages by queue; None: nobody could tell
