"""The readings of simulated nodes, all from one `World`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from agents.collectors.base import GpuReading, NodeReading

if TYPE_CHECKING:
    from agents.contention.world import World


class SimulatedCollector:
    """The readings of one node of a world; None while the node is lost.

    The caller steps the world, once for all nodes, before it collects.
    """

    def __init__(self, world: World, node: str) -> None:
        """Raises KeyError for a node that is not in the world."""
        self._world = world
        self._node = node
        self._gpus = world.gpus_of(node)

    def collect(self, now: float) -> NodeReading | None:
        world, gpus = self._world, self._gpus
        if world.is_lost(self._node):
            return None
        columns = (
            world.values()[gpus],
            world.online_sm()[gpus],
            world.offline_sm()[gpus],
            world.online_memory()[gpus],
            world.offline_memory()[gpus],
        )
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return NodeReading(now, tuple(_gpu(index, *row) for index, row in enumerate(rows)))

    def close(self) -> None: ...


def _gpu(
    index: int,
    values: Sequence[float],
    online_sm: float,
    offline_sm: float,
    online_bytes: float,
    offline_bytes: float,
) -> GpuReading:
    return GpuReading(
        index=index,
        values=tuple(_present(values)),
        sm_online_percent=online_sm,
        sm_offline_percent=offline_sm,
        online_processes=int(online_bytes > 0.0),
        online_memory_bytes=int(online_bytes),
        offline_memory_bytes=int(offline_bytes),
    )


def _present(values: Iterable[float]) -> Iterable[float | None]:
    """numpy says nan where a value is missing."""
    return (None if math.isnan(value) else value for value in values)
