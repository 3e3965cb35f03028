"""What a round looks at: frozen facts of one moment, read once, judged by pure code. Pure.

Percent values are of one whole GPU, sizes bytes, times seconds; None is missing, never zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from agents.wire.names import GpuState, SharingMode


@dataclass(frozen=True, slots=True)
class Use:
    """What one side uses of a GPU."""

    sm_percent: float
    util_percent: float
    bandwidth_percent: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Rules:
    """The part of a pool's policy that placing depends on. Gains are in GPUs."""

    sm_reserve_percent: float
    memory_reserve_percent: float
    min_headroom_percent: float
    move_min_gain: float
    restart_s: float


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU. `online` is its use now, `online_peak_percent` the SM activity of the last minutes.

    `live_age_s` None: nothing was heard of it. `imported`: its state and use are assumed.
    `held_for`: the job that was moved, or may be, to this GPU.
    """

    id: int
    name: str
    model: str
    pool: str
    memory_bytes: int
    mode: SharingMode
    state: GpuState
    imported: bool
    node_connected: bool
    live_age_s: float | None
    online: Use
    online_peak_percent: float
    rules: Rules
    headroom_percent: float | None = None
    holdback: bool = False
    conflict: bool = False
    disabled: bool = False
    cordoned: bool = False
    draining: bool = False
    unshareable_fact: str = ""
    held_for: UUID | None = None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One job that waits or runs. Empty `pools` and `gpu_models`: any.

    `weight` is what one unit of its throughput is worth, from its priority.
    """

    id: UUID
    name: str
    submitted_at: datetime
    weight: float
    use: Use
    pools: tuple[str, ...] = ()
    gpu_models: tuple[str, ...] = ()
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class RunningFacts:
    """A placement that holds its GPU. `fixed` says why it cannot be moved; empty: it can."""

    placement_id: UUID
    job: JobFacts
    gpu_id: int
    share_percent: float
    fixed: str
    left_work_s: float
    unsaved_work_s: float


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All inputs of one round over the GPUs whose sharing mode should be `mode`.

    `avoid`: this job was taken off this GPU not long ago. `moves_allowed`: how many proposals to
    move may be added to those that are open.
    """

    at: datetime
    mode: SharingMode
    gpus: tuple[GpuFacts, ...]
    jobs: tuple[JobFacts, ...]
    running: tuple[RunningFacts, ...] = ()
    avoid: frozenset[tuple[UUID, int]] = frozenset()
    moves_allowed: int = 0
