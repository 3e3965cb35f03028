"""A node of a large fleet: the agent as it is, woken only where it has anything to decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents.guard import Guard
from agents.node import NodeAgent
from agents.wire import packed
from agents.wire.messages import PackedTelemetry
from agents.wire.names import SIGNALS


class Sleeper(NodeAgent):
    """While it sleeps, its telemetry is made for it, and its guards fall behind; `wake` is called
    before anything here looks at them again, and brings them up to the last second."""

    def __init__(self, *parts: Any, wake: Callable[[], None]) -> None:
        super().__init__(*parts)
        self._wake = wake
        self.asleep = False
        # New orders find a sample of their own moment: see `received`.
        self.rests = True

    @property
    def guards(self) -> tuple[Guard, ...]:
        """In the order of their GPUs."""
        return tuple(self._guards.values())

    @property
    def may_sleep(self) -> bool:
        """Nothing runs here, has run or is to run: whatever is to be done follows on new orders."""
        return not (self._guests.are_there or self._guests.known() or self._orders.placements)

    def sleep_on(self, rows: bytes, now: float) -> None:
        """A second in which no guard had anything to decide; `rows` as in `PackedTelemetry`."""
        number = self._reporter.count(now)
        told = PackedTelemetry(
            number, self._reporter.wall(), len(packed.FIELDS), len(SIGNALS), rows
        )
        self.outbox.offer(told, now)
        self._offer_status(now)

    def sample(self, now: float) -> None:
        if self.asleep:
            self._wake()
        super().sample(now)

    def _offer_status(self, now: float) -> None:
        if not self.asleep or self._reporter.is_due(now):
            super()._offer_status(now)
