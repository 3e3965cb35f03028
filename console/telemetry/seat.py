"""What one browser still has to be sent: the newest frame, the newest summary, a few events.

A tab that reads slowly gets fewer frames, never older ones, and never makes the server hold more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from console.telemetry import frames
from console.telemetry.latest import Bytes, Ids

# Events are hints to read again; a tab that missed some reads once.
EVENTS_KEPT: Final = 32


@dataclass(frozen=True)
class Tick:
    """The whole map at one second. Its snapshot is only encoded when somebody needs it."""

    epoch: int
    sequence: int
    at: float
    ids: Ids
    cells: Bytes
    delta: bytes

    @cached_property
    def snapshot(self) -> bytes:
        return frames.snapshot(self.ids, self.cells, self.epoch, self.sequence, self.at)


class Seat:
    def __init__(self) -> None:
        self._tick: Tick | None = None
        self._summary = ""
        self._events: deque[str] = deque(maxlen=EVENTS_KEPT)
        self._shown: tuple[int, int] | None = None  # epoch and sequence that the browser has
        self._something = asyncio.Event()

    def offer(self, tick: Tick, summary: str) -> None:
        """A new second; one that was not taken yet is forgotten."""
        self._tick, self._summary = tick, summary
        self._something.set()

    def tell(self, event: str) -> None:
        self._events.append(event)
        self._something.set()

    def start_over(self) -> None:
        """The browser found a gap: the next frame is a snapshot."""
        self._shown = None

    async def take(self) -> list[str | bytes]:
        """Waits for something to send, then hands over all there is."""
        await self._something.wait()
        self._something.clear()
        messages: list[str | bytes] = [*self._events]
        self._events.clear()
        if self._tick is not None:
            messages += [self._frame(self._tick), self._summary]
            self._tick = None
        return messages

    def _frame(self, tick: Tick) -> bytes:
        follows = self._shown == (tick.epoch, tick.sequence - 1)
        self._shown = (tick.epoch, tick.sequence)
        return tick.delta if follows else tick.snapshot
