"""What one browser still has to be sent: what its map lacks, the newest summary, a few events.

Nothing waits here but events: a frame is made when the tab can take it, from what the tab has to
what is so by then. A tab that reads slowly gets fewer frames, never older ones, and never makes
the server hold more; one that asks for more than its budget is served less often.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from console.telemetry.stage import Shown
from console.telemetry.view import Sight
from console.telemetry.watch import NOTHING, Watch

# Events are hints to read again; a tab that missed some reads once.
EVENTS_KEPT: Final = 32
BUDGET_BYTES_S: Final = 100_000
# So much may come at once after a quiet time: the first snapshot of a large fleet.
_SAVED_BYTES: Final = 4 * BUDGET_BYTES_S


class Scenery(Protocol):
    """What a seat looks at (audience.Audience)."""

    def frame(
        self, pools: Sight, number: int, watch: Watch, shown: Shown | None
    ) -> tuple[Shown, bytes] | None: ...

    def summary(self, pools: Sight) -> str: ...


class Seat:
    def __init__(self, pools: Sight = None) -> None:
        self.pools, self.watch, self.number = pools, NOTHING, 0
        self._shown: Shown | None = None
        self._events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self._news = asyncio.Event()
        self._tick_due = False
        self._bytes_left, self._counted_at = float(_SAVED_BYTES), 0.0

    def offer(self) -> bool:
        """A new second; False when the one before was not taken yet, and never will be."""
        in_time, self._tick_due = not self._tick_due, True
        self._news.set()
        return in_time

    def tell(self, event: str) -> None:
        self._events.append(event)
        self._news.set()

    def turn_to(self, number: int, watch: Watch) -> None:
        """The tab draws something else from now on; it is sent at once."""
        self.number, self.watch = number, watch
        self.offer()

    def start_over(self) -> None:
        """The browser found a gap: the next frame is a snapshot."""
        self._shown = None

    async def wait(self) -> None:
        await self._news.wait()
        self._news.clear()

    def take(self, scenery: Scenery, now: float) -> list[str | bytes]:
        """All there is to send at this moment."""
        messages: list[str | bytes] = [*self._events]
        self._events.clear()
        if self._tick_due:
            self._tick_due = False
            messages += [*self._frame(scenery, now), scenery.summary(self.pools)]
        return messages

    def _frame(self, scenery: Scenery, now: float) -> list[bytes]:
        if not self._may_spend(now):
            return []
        made = scenery.frame(self.pools, self.number, self.watch, self._shown)
        if made is None:
            return []
        self._shown, data = made
        self._bytes_left -= len(data)
        return [data]

    def _may_spend(self, now: float) -> bool:
        earned = max(0.0, now - self._counted_at) * BUDGET_BYTES_S
        self._bytes_left = min(self._bytes_left + earned, _SAVED_BYTES)
        self._counted_at = now
        return self._bytes_left > 0
