"""Which statuses of nodes must be written, and when. Pure, `now` in seconds of a monotonic clock.

A fleet of thousands of nodes sends hundreds of statuses a second, and nearly all say what the last
one said. News are written at once, those that came first before the others. What moves all the
time (progress, duty, memory) is written every few seconds. What says nothing at all is not.
Of each node only the newest status is kept: it is whole, so it replaces the one before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from agents.wire.messages import GpuStatus, Status

PROGRESS_EVERY_S: Final = 4.0

Told: TypeAlias = tuple[object, ...]


class Report(NamedTuple):
    """What one node said last."""

    node_id: int
    status: Status


class _Written(NamedTuple):
    news: Told
    whys: Told
    at: float


class Statuses:
    def __init__(self) -> None:
        self._news: dict[int, Status] = {}
        self._moving: dict[int, Status] = {}
        self._written: dict[int, _Written] = {}
        # Being written: until that is known to be done, whatever comes is news.
        self._under_way: set[int] = set()

    def __len__(self) -> int:
        """How many nodes have something that waits to be written."""
        return len(self._news) + len(self._moving)

    def put(self, node_id: int, status: Status) -> None:
        """Keep its place in the queue when one of this node waits already."""
        written = self._written.get(node_id)
        is_open = node_id in self._news or node_id in self._under_way
        if is_open or written is None or written.news != _news(status):
            self._news[node_id] = status
            self._moving.pop(node_id, None)
        elif status.placements or written.whys != _whys(status):
            self._moving[node_id] = status
        else:
            self._moving.pop(node_id, None)

    def take(self, now: float, most: int, most_moving: int) -> list[Report]:
        """What is to be written now: news, and with the room that is left what moves."""
        due = [
            node_id
            for node_id in self._moving
            if now - self._written[node_id].at >= PROGRESS_EVERY_S
        ]
        taken = [Report(node_id, self._news.pop(node_id)) for node_id in list(self._news)[:most]]
        room = min(most_moving, most - len(taken))
        taken += [Report(node_id, self._moving.pop(node_id)) for node_id in due[:room]]
        self._under_way.update(node_id for node_id, _ in taken)
        return taken

    def written(self, reports: Sequence[Report], now: float) -> None:
        """They are in the database."""
        for node_id, status in reports:
            self._under_way.discard(node_id)
            self._written[node_id] = _Written(_news(status), _whys(status), now)

    def give_back(self, reports: Sequence[Report]) -> None:
        """The database did not take them: they are first again, where no newer one came."""
        self._news = dict(reports) | self._news
        self._under_way.difference_update(node_id for node_id, _ in reports)

    def forget(self, node_id: int) -> None:
        """Its connection ended: what waits is still written, and the next it says is news."""
        self._written.pop(node_id, None)
        waits = self._moving.pop(node_id, None)
        if waits is not None:
            self._news[node_id] = waits


def _news(status: Status) -> Told:
    """What of a status must be written at once; two that agree in it differ in progress alone."""
    return (
        status.observed_generation,
        status.policy_versions,
        status.refused,
        [_standing(gpu) for gpu in status.gpus],
        [
            (one.placement_id, one.state, one.phase, one.end_reason, one.sm_share_percent)
            for one in status.placements
        ],
    )


def _standing(gpu: GpuStatus) -> Told:
    return gpu.index, gpu.state, gpu.mode, gpu.unshareable_fact, gpu.degraded


def _whys(status: Status) -> Told:
    return tuple(gpu.why for gpu in status.gpus)
