"""What waits to be sent to the console: events in order, of all else only the latest."""

from __future__ import annotations

import asyncio
from typing import Final

from agents.backfill import Backfiller, Recorded
from agents.spool import Spool
from agents.wire.limits import MAX_EVENTS_PER_BATCH
from agents.wire.messages import EventBatch, FromAgent, PackedTelemetry, Status, Telemetry

# An acknowledgement waits for a database commit; one that takes longer is taken for lost.
ACK_TIMEOUT_S: Final = 10.0
# A sample no older than this is told on a new connection too: nobody looks stale for a hand-over.
FRESH_S: Final = 2.0


class Outbox:
    """Bounded whatever happens: one telemetry, one status, one window of unacknowledged events.

    The window halves when events did not get through in time, so that a slow connection carries
    some at least, and doubles with each acknowledgement.
    """

    def __init__(self, spool: Spool, recorded: Recorded | None = None) -> None:
        """`recorded`: what a console that missed it can be told afterwards."""
        self._spool = spool
        self.backfill = Backfiller(recorded)
        self._telemetry: Telemetry | PackedTelemetry | None = None
        self._newest: Telemetry | PackedTelemetry | None = None
        self._offered_at = float("-inf")
        self._status: Status | None = None
        # All that the console says it has, and all that it has been sent on this connection.
        self._stored_seq = self._sent_seq = 0
        self._window = MAX_EVENTS_PER_BATCH
        # Since when the oldest event in flight waits; None before anybody looked.
        self._waits_since: float | None = None
        self._filled = asyncio.Event()
        # A simulated node that hangs: until then (monotonic seconds) it says nothing.
        self.silent_until = float("-inf")

    def offer(self, telemetry: Telemetry | PackedTelemetry, now: float) -> None:
        self._telemetry = self._newest = telemetry
        self._offered_at = now
        self._filled.set()

    def offer_status(self, status: Status) -> None:
        self._status = status
        self._filled.set()

    def ring(self) -> None:
        """There may be new events in the spool."""
        self._filled.set()

    def resume(self, acked_seq: int, now: float) -> None:
        """A new connection: what is not acknowledged is sent again, stale values are not."""
        if self._sent_seq > acked_seq:
            self._narrow()
        self._spool.meet(acked_seq)
        self._stored_seq = self._sent_seq = acked_seq
        self._waits_since = None
        self._status = None
        self._telemetry = self._newest if now - self._offered_at <= FRESH_S else None

    def acknowledge(self, seq: int) -> None:
        """A number that was never sent acknowledges nothing; one that was given up on does."""
        if self._stored_seq < seq <= self._spool.handed_out_seq:
            self._spool.ack(seq)
            self._stored_seq, self._waits_since = seq, None
            self._sent_seq = max(self._sent_seq, seq)
            self._window = min(2 * self._window, MAX_EVENTS_PER_BATCH)
            self._filled.set()

    def take(self, now: float) -> FromAgent | None:
        """The next message to send, facts that must arrive first, what is past last; None when
        there is none."""
        if now < self.silent_until:
            return None
        if batch := self._take_events(now):
            return batch
        status, self._status = self._status, None
        if status is not None:
            return status
        telemetry, self._telemetry = self._telemetry, None
        return telemetry or self.backfill.take(now)

    async def wait(self, timeout_s: float) -> None:
        """Returns when something was put in, or after a while to look at what was not acked."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._filled.wait()
        except TimeoutError:
            return
        self._filled.clear()

    def _take_events(self, now: float) -> EventBatch | None:
        self._give_up_on_late(now)
        room = self._window - max(0, self._sent_seq - max(self._stored_seq, self._spool.acked_seq))
        if self._spool.last_seq <= self._sent_seq or room <= 0:
            return None
        events = self._spool.batch(self._sent_seq, room)
        if not events:
            return None
        after_seq, self._sent_seq = self._sent_seq, events[-1].seq
        if self._waits_since is None:
            self._waits_since = now
        return EventBatch(events, after_seq)

    def _give_up_on_late(self, now: float) -> None:
        """Whether the events or their acknowledgement were lost: both are made up for so."""
        if self._sent_seq <= self._stored_seq:
            return
        if self._waits_since is None:
            self._waits_since = now
        elif now - self._waits_since > ACK_TIMEOUT_S:
            self._sent_seq, self._waits_since = self._stored_seq, None
            self._narrow()

    def _narrow(self) -> None:
        self._window = max(1, self._window // 2)
