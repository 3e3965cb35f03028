"""What a round looks at: frozen facts of one moment, read once, judged by pure code. Pure.

Percent values are of one whole GPU, sizes bytes, times seconds; None is missing, never zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from agents.wire.names import GpuState, SharingMode

# Loads of GPUs are judged in steps of this, rounded up: safe, and it makes GPUs alike.
STEP_PERCENT: Final = 5.0
# Older samples say nothing about now. Our choice, as the map's "stale".
LIVE_AGE_S: Final = 10.0
# Where the profile of a job comes from: its owner, its own profiling run, an earlier job that was
# the same, or nowhere; then it is assumed to be demanding.
PROFILE_SOURCES: Final = ("user", "measured", "history", "conservative")


@dataclass(frozen=True, slots=True)
class Use:
    """What one side uses of a GPU, alone on it.

    `step_s`: of one step of its work, or one request. `gpu_model`: where it was measured; empty:
    on the GPU at hand, or nobody knows.
    """

    sm_percent: float
    util_percent: float
    bandwidth_percent: float
    memory_bytes: float
    occupancy_percent: float | None = None
    step_s: float | None = None
    gpu_model: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """The part of a pool's policy that placing depends on. Gains are in GPUs.

    `most_slowdown`: no pair is made that is predicted to slow online by more (1 = not at all).
    `proven_for_tier`: beside services of this tier and of those above it (1 is the highest) only
    proven jobs run; 0: beside all, any.
    """

    sm_reserve_percent: float
    memory_reserve_percent: float
    min_headroom_percent: float
    move_min_gain: float
    restart_s: float
    most_slowdown: float = 1.35
    proven_for_tier: int = 0


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """One GPU. `online` is its use now, `online_peak_percent` the most SM activity to expect. Live
    figures are told as coarsely as they are judged, so that facts change when a verdict may.

    `live_age_s` None: nothing was heard of it. `imported`: its state and use are assumed.
    `held_for`: the job that was moved, or may be, to this GPU.
    `tier`: the highest of its services (1 before 2); None: it serves nobody. `service` names them.
    `never_share`: one of its services, its node or its pool asked for that. `labels`: "key=value".
    `cpu_free` (cores) and `host_memory_free_bytes`: its part of what its node has left, so that
    two jobs of one round cannot both count on the same; None: not known, and not asked.
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
    tier: int | None = None
    service: str = ""
    never_share: bool = False
    simulated: bool = False
    labels: frozenset[str] = frozenset()
    cpu_free: float | None = None
    host_memory_free_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class JobFacts:
    """One job that waits or runs. Empty `pools` and `gpu_models`: any.

    `weight` is what one unit of its throughput is worth, from its priority.
    `gpus`: how many it needs at once. `cpu_cores` and `host_memory_bytes`: what it needs of its
    host, None: next to nothing. `labels`: those that a GPU must carry, "key=value".
    `proven`: it has run on a GPU without a fault. `profile_source`: one of PROFILE_SOURCES.
    """

    id: UUID
    name: str
    submitted_at: datetime
    weight: float
    use: Use
    pools: tuple[str, ...] = ()
    gpu_models: tuple[str, ...] = ()
    not_before: datetime | None = None
    gpus: int = 1
    cpu_cores: float | None = None
    host_memory_bytes: float | None = None
    team: str = ""
    labels: frozenset[str] = frozenset()
    proven: bool = False
    profile_source: str = "user"


@dataclass(frozen=True, slots=True)
class RunningFacts:
    """A placement that holds its GPU. `fixed` says why it cannot be moved; empty: it can.

    `since`: when it started. `interruptions_left`: how often the scheduler may still stop it;
    None: as often as it likes.
    """

    placement_id: UUID
    job: JobFacts
    gpu_id: int
    share_percent: float
    fixed: str
    left_work_s: float
    unsaved_work_s: float
    since: datetime | None = None
    interruptions_left: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All inputs of one round over the GPUs whose sharing mode should be `mode`.

    `avoid`: this job was taken off this GPU not long ago. `restarts_left`: by pool, how many
    running jobs may still be moved away from its GPUs this hour; a pool not named: none.
    `moves_open`: pools in which it is not the hour's budget that leaves so few, but earlier moves
    that are still open: only so many may be at once.
    `team_room`: by team, how many more of its jobs may run; a team not named: any number.
    `aging_per_hour`: what each hour of waiting adds to what a job is worth, in GPUs.
    """

    at: datetime
    mode: SharingMode
    gpus: tuple[GpuFacts, ...]
    jobs: tuple[JobFacts, ...]
    running: tuple[RunningFacts, ...] = ()
    avoid: frozenset[tuple[UUID, int]] = frozenset()
    restarts_left: Mapping[str, int] = field(default_factory=dict)
    moves_open: frozenset[str] = frozenset()
    team_room: Mapping[str, int] = field(default_factory=dict)
    aging_per_hour: float = 0.02
