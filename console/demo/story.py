"""The first two minutes, by themselves: what is due, given what has happened. Pure.

Times are real seconds since the first page was seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

SHARING_AFTER_S: Final = 40.0
SPIKE_AFTER_S: Final = 90.0
SPIKE_AGAIN_S: Final = 240.0
QUEUE_LOW: Final = 40
REFILL: Final = 40


class Step(StrEnum):
    TURN_SHARING_ON = "turn_sharing_on"
    SHARE_LATECOMERS = "share_latecomers"
    TRAFFIC_SPIKE = "traffic_spike"
    REFILL_QUEUE = "refill_queue"
    REFILL_PROCESSES = "refill_processes"


@dataclass(frozen=True)
class Scene:
    """`seen_s`: since the first page view, None before it. `spike_s`: since the last spike.

    `latecomers`: GPUs that could not share yet when sharing was turned on, and can now. `queued`
    counts simulated jobs, `processes_low` tells of the real ones, which wait for their one node.
    """

    seen_s: float | None
    sharing_was_on: bool
    guests_running: int
    queued: int
    spike_s: float | None
    latecomers: bool = False
    processes_low: bool = False


def due(scene: Scene) -> tuple[Step, ...]:
    """The steps to take now. Sharing is switched on once: a person who stops it is obeyed."""
    steps = []
    if scene.seen_s is None:
        return ()
    if scene.seen_s >= SHARING_AFTER_S and not scene.sharing_was_on:
        steps.append(Step.TURN_SHARING_ON)
    if scene.latecomers:
        steps.append(Step.SHARE_LATECOMERS)
    if scene.seen_s >= SPIKE_AFTER_S and scene.guests_running and _spike_is_over(scene.spike_s):
        steps.append(Step.TRAFFIC_SPIKE)
    if scene.sharing_was_on and scene.queued < QUEUE_LOW:
        steps.append(Step.REFILL_QUEUE)
    if scene.sharing_was_on and scene.processes_low:
        steps.append(Step.REFILL_PROCESSES)
    return tuple(steps)


def _spike_is_over(spike_s: float | None) -> bool:
    return spike_s is None or spike_s >= SPIKE_AGAIN_S
