"""What waits to be sent to the console: events in order, of all else only the latest."""

from __future__ import annotations

import asyncio
from typing import Final

from agents.spool import Spool
from agents.wire.limits import MAX_EVENTS_PER_BATCH
from agents.wire.messages import EventBatch, FromAgent, Status, Telemetry

# An acknowledgement waits for a database commit; one that takes longer is taken for lost.
ACK_TIMEOUT_S: Final = 10.0


class Outbox:
    """Bounded whatever happens: one telemetry, one status, one window of unacknowledged events."""

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._telemetry: Telemetry | None = None
        self._status: Status | None = None
        self._sent_seq = spool.acked_seq
        self._sent_at = 0.0
        self._filled = asyncio.Event()

    def offer(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._filled.set()

    def offer_status(self, status: Status) -> None:
        self._status = status
        self._filled.set()

    def ring(self) -> None:
        """There may be new events in the spool."""
        self._filled.set()

    def resume(self, acked_seq: int) -> None:
        """A new connection: what is not acknowledged is sent again, stale values are not."""
        self._spool.ack(acked_seq)
        self._sent_seq = self._spool.acked_seq
        self._telemetry = self._status = None

    def acknowledge(self, seq: int) -> None:
        """A number that was never sent acknowledges nothing."""
        if seq <= self._sent_seq:
            self._spool.ack(seq)
            self._filled.set()

    def take(self, now: float) -> FromAgent | None:
        """The next message to send, facts that must arrive first; None when there is none."""
        if batch := self._take_events(now):
            return batch
        status, self._status = self._status, None
        if status is not None:
            return status
        telemetry, self._telemetry = self._telemetry, None
        return telemetry

    async def wait(self, timeout_s: float) -> None:
        """Returns when something was put in, or after a while to look at what was not acked."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._filled.wait()
        except TimeoutError:
            return
        self._filled.clear()

    def _take_events(self, now: float) -> EventBatch | None:
        if self._sent_seq > self._spool.acked_seq and now - self._sent_at > ACK_TIMEOUT_S:
            self._sent_seq = self._spool.acked_seq
        in_flight = self._sent_seq - self._spool.acked_seq
        if self._spool.last_seq <= self._sent_seq or in_flight >= MAX_EVENTS_PER_BATCH:
            return None
        events = self._spool.batch(self._sent_seq)
        if not events:
            return None
        self._sent_seq, self._sent_at = events[-1].seq, now
        return EventBatch(events)
