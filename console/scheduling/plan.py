"""What a round decided: one verdict for each GPU and each job that it looked at. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import msgspec

from console.scheduling.snapshot import Snapshot


class Kind(StrEnum):
    """The values of `Decision.kind`."""

    PLACE = "place"
    KEEP = "keep"
    MOVE = "move"
    WAIT = "wait"
    UNUSED = "unused"


class Code(StrEnum):
    """Why, in one word: verdicts are grouped by it."""

    # a pair
    BEST = "best"
    KEPT = "kept"
    FIXED = "fixed"
    MOVE = "move"
    # a GPU that takes no offline work now
    MODE = "mode"
    NEVER_SHARE = "never_share"
    HOLDBACK = "holdback"
    CONFLICT = "conflict"
    UNSHAREABLE = "unshareable"
    DISABLED = "disabled"
    CORDONED = "cordoned"
    DRAINING = "draining"
    UNREACHABLE = "unreachable"
    NO_LIVE_DATA = "no_live_data"
    STATE = "state"
    HEADROOM = "headroom"
    NO_SHARE = "no_share"
    HELD = "held"
    # a GPU that could, or a job that waits
    NO_JOBS = "no_jobs"
    NO_GPUS = "no_gpus"
    NOT_BEFORE = "not_before"
    GANG = "gang"
    TEAM_CAP = "team_cap"
    AVOID_MANY = "avoid_many"
    POOL = "pool"
    MODEL = "model"
    LABELS = "labels"
    CONSERVATIVE = "conservative"
    UNPROVEN = "unproven"
    MEMORY = "memory"
    HOST_CPU = "host_cpu"
    HOST_MEMORY = "host_memory"
    AVOID = "avoid"
    SLOWDOWN = "slowdown"
    WORTHLESS = "worthless"
    OUTBID = "outbid"
    FOLLOWS = "follows"
    LATE = "late"
    OVERTAKEN = "overtaken"


# The heading of each group, as people read it.
WORDS: Final[Mapping[Code, str]] = {
    Code.BEST: "Best pair",
    Code.KEPT: "Stays where it is",
    Code.FIXED: "Cannot be moved now",
    Code.MOVE: "Move proposed",
    Code.MODE: "Sharing mode forbids it",
    Code.NEVER_SHARE: "Never shares",
    Code.HOLDBACK: "Held back as control",
    Code.CONFLICT: "UUID claimed twice",
    Code.UNSHAREABLE: "Not shareable",
    Code.DISABLED: "Disabled by a person",
    Code.CORDONED: "Node cordoned",
    Code.DRAINING: "Node draining",
    Code.UNREACHABLE: "Node not connected",
    Code.NO_LIVE_DATA: "No live data",
    Code.STATE: "State takes no new work",
    Code.HEADROOM: "Too close to a limit",
    Code.NO_SHARE: "Online leaves no share",
    Code.HELD: "Kept free for a move",
    Code.NO_JOBS: "No job waits",
    Code.NO_GPUS: "No GPU is open",
    Code.NOT_BEFORE: "Waits before its next try",
    Code.GANG: "Needs several GPUs at once",
    Code.TEAM_CAP: "Its team runs all it may",
    Code.AVOID_MANY: "Looked at in a later round",
    Code.POOL: "Pool not allowed",
    Code.MODEL: "GPU model not allowed",
    Code.LABELS: "Label missing",
    Code.CONSERVATIVE: "Not measured yet",
    Code.UNPROVEN: "Not proven yet",
    Code.MEMORY: "Memory does not fit",
    Code.HOST_CPU: "Host CPU does not suffice",
    Code.HOST_MEMORY: "Host memory does not fit",
    Code.AVOID: "Taken off there lately",
    Code.SLOWDOWN: "Would slow online too much",
    Code.WORTHLESS: "Would hardly run",
    Code.OUTBID: "Others are worth more",
    Code.FOLLOWS: "Waits for a move",
    Code.LATE: "Out of time",
    Code.OVERTAKEN: "Changed while deciding",
}


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What is said of a GPU, a job or a pair of them.

    `throughput` (a fraction of the job's speed alone) and `slowdown` (of online, 1 = none) are
    predictions by `predictor`, each with its 90 % interval; `flags`: why they are out of what it
    has learned. `runner_up`: the job that was next best there, `runner_up_loss` what it would cost
    the plan, in GPUs. `gpu_price`: what the GPU earns at the prices of the certificate, in GPUs.
    """

    kind: Kind
    code: Code
    why: str
    job_id: UUID | None = None
    gpu_id: int | None = None
    from_gpu_id: int | None = None
    weight: float | None = None
    throughput: float | None = None
    slowdown: float | None = None
    share_percent: float | None = None
    throughput_low: float | None = None
    throughput_high: float | None = None
    slowdown_low: float | None = None
    slowdown_high: float | None = None
    predictor: str = ""
    flags: tuple[str, ...] = ()
    runner_up: str = ""
    runner_up_loss: float | None = None
    gpu_price: float | None = None


class Rival(msgspec.Struct, frozen=True, gc=False):
    """Of a pair that is made: the job that would be next best there ("": none could run there), by
    how much the plan would be worth less with it, and without the GPU, in GPUs; and the sentence.

    What keeps a running job from being left without a GPU is in neither figure: where only that
    is in the way, `loss` may be below 0.
    """

    name: str
    loss: float | None
    price: float
    said: str


class Placing(msgspec.Struct, frozen=True, gc=False):
    """A job to start on a GPU, within these limits."""

    job_id: UUID
    gpu_id: int
    share_percent: float
    quota_bytes: int
    throughput: float
    slowdown: float | None = None


class Move(msgspec.Struct, frozen=True, gc=False):
    """A running job to take to another GPU.

    `gain` of this job alone, in GPUs; below 0 it makes room for one that gains more. `cost_work_s`:
    the work that its restart costs. `pays_back_s`: until the moves of its chain together have made
    good what they cost; None: they make room for jobs that wait. `evidence`: the same and more.

    Moves of one `chain` only make sense together, in this order: each goes to a GPU that is free
    or to one that the placement `after` leaves, which in a ring is the last one. They are approved
    and stopped as one.
    """

    placement_id: UUID
    job_id: UUID
    from_gpu_id: int
    to_gpu_id: int
    gain: float
    cost_work_s: float
    pays_back_s: float | None
    why: str
    evidence: Mapping[str, float]
    chain: int = 0
    after: UUID | None = None


@dataclass(frozen=True)
class Plan:
    """What to do, why, what it is worth together, and the most that anything could be worth.

    `throughput` in GPUs; `objective` is the same times priority, less what online loses; equal to
    `upper_bound` it proves the plan optimal, aging and the cost of restarts included. `seconds` by
    phase. `late`: the time budget was hit; what runs stays, nothing is placed, and there is no
    bound. `prices`: by class of jobs, in millionths; the next round starts from them. `rivals`: by
    GPU id, worked out when it is asked for, since no decision hangs on it.
    """

    placings: tuple[Placing, ...]
    moves: tuple[Move, ...]
    verdicts: tuple[Verdict, ...]
    throughput: float
    objective: float
    upper_bound: float | None
    pairs: int
    inputs: Mapping[str, Any]
    seconds: Mapping[str, float]
    late: bool = False
    predictor: str = ""
    prices: Mapping[str, int] = field(default_factory=dict)
    rivals: Callable[[], Mapping[int, Rival]] = dict

    def of(self, *kinds: Kind) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.kind in kinds]


Decide = Callable[[Snapshot], Plan]
