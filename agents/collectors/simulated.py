"""The readings of simulated nodes, all from one `World`."""

from __future__ import annotations

from agents.collectors.base import NodeReading
from agents.contention.world import World


class SimulatedCollector:
    """The readings of one node of a world; None while the node is lost.

    The caller steps the world, once for all nodes, before it collects.
    """

    name = "simulated"

    def __init__(self, world: World, node: str) -> None:
        raise NotImplementedError

    def collect(self, now: float) -> NodeReading | None:
        raise NotImplementedError
