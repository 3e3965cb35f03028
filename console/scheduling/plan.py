"""What a round decided: one verdict for each GPU and each job that it looked at. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

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
    POOL = "pool"
    MODEL = "model"
    MEMORY = "memory"
    AVOID = "avoid"
    SLOWDOWN = "slowdown"
    WORTHLESS = "worthless"
    OUTBID = "outbid"
    OVERTAKEN = "overtaken"


# The heading of each group, as people read it.
WORDS: Final[Mapping[Code, str]] = {
    Code.BEST: "Best pair",
    Code.KEPT: "Stays where it is",
    Code.FIXED: "Cannot be moved now",
    Code.MOVE: "Move proposed",
    Code.MODE: "Sharing mode forbids it",
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
    Code.POOL: "Pool not allowed",
    Code.MODEL: "GPU model not allowed",
    Code.MEMORY: "Memory does not fit",
    Code.AVOID: "Taken off there lately",
    Code.SLOWDOWN: "Would slow online too much",
    Code.WORTHLESS: "Would hardly run",
    Code.OUTBID: "Others are worth more",
    Code.OVERTAKEN: "Changed while deciding",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is said of a GPU, a job or a pair of them; `throughput` and `slowdown` are estimates."""

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


@dataclass(frozen=True, slots=True)
class Placing:
    """A job to start on a GPU, within these limits."""

    job_id: UUID
    gpu_id: int
    share_percent: float
    quota_bytes: int
    throughput: float


@dataclass(frozen=True, slots=True)
class Wish:
    """A move to propose. `evidence`: what it gains and costs, and when it has paid back."""

    placement_id: UUID
    to_gpu_id: int
    why: str
    evidence: Mapping[str, float]


@dataclass(frozen=True)
class Plan:
    """What to do, why, what it is worth together, and the most that anything could be worth.

    `throughput` in GPUs; `objective` is the same times priority, and equal to `upper_bound` it
    proves the plan optimal. `seconds` by phase.
    """

    placings: tuple[Placing, ...]
    wishes: tuple[Wish, ...]
    verdicts: tuple[Verdict, ...]
    throughput: float
    objective: float
    upper_bound: float
    pairs: int
    inputs: Mapping[str, Any]
    seconds: Mapping[str, float]

    def of(self, *kinds: Kind) -> list[Verdict]:
        return [verdict for verdict in self.verdicts if verdict.kind in kinds]


Decide = Callable[[Snapshot], Plan]
