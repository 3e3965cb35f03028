"""Events of one node, kept in order until the console has made them durable."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from agents.state import StateFile, Table
from agents.tally import Tally
from agents.wire.ids import uuid7
from agents.wire.limits import MAX_EVENTS_PER_BATCH
from agents.wire.messages import Event
from agents.wire.names import TERMINAL_EVENTS, EventKind

CAPACITY: Final = 10_000
# Half of a message, so that a batch never nears the limit.
MAX_BATCH_BYTES: Final = 512 << 10

_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Event] = msgspec.msgpack.Decoder(Event)
_number_decoder = msgspec.msgpack.Decoder(int)


class Spool:
    """Sequence numbers are never used twice: a new spool starts at the Unix time in milliseconds,
    so that one whose file was lost goes on above whatever the console has seen of it."""

    def __init__(
        self,
        state: StateFile,
        node: str,
        wall: Callable[[], float] = time.time,
        capacity: int = CAPACITY,
    ) -> None:
        self._state, self._node, self._wall, self._capacity = state, node, wall, capacity
        query = "SELECT COUNT(*), MIN(seq), MAX(seq) FROM event WHERE node = ?"
        count, first, last = state.read(query, (node,))[0]
        acked = state.fact(node, "acked_seq")
        self._is_new = acked is None
        if acked is not None:
            self.acked_seq = _number_decoder.decode(acked)
        else:
            self.acked_seq = int(wall() * 1_000) if first is None else first - 1
        self.count: int = count
        self.last_seq: int = max(last or 0, self.acked_seq)
        # What an earlier life of this agent sent is not known: all of it may have been.
        self.handed_out_seq = self.last_seq
        self._gap: Event | None = None
        self.tally = Tally()

    def append(
        self,
        kind: EventKind,
        *,
        gpu_index: int | None = None,
        placement_id: str | None = None,
        eviction_id: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        """Adds one event. A full spool counts it instead, unless it is a terminal outcome."""
        self.tally.note(kind, gpu_index, placement_id, data or {}, time.monotonic())
        terminal = kind in TERMINAL_EVENTS
        if self.count >= self._capacity and not terminal:
            self._widen_gap()
            return
        self._add(
            Event(
                self.last_seq + 1,
                str(uuid7()),
                kind,
                self._wall(),
                gpu_index,
                placement_id,
                eviction_id,
                data or {},
            )
        )

    def batch(self, after_seq: int, most: int = MAX_EVENTS_PER_BATCH) -> tuple[Event, ...]:
        """The next events after `after_seq`, made durable first: what the console has seen, a
        power cut cannot take back, so no sequence number is used for two events. None while the
        disk refuses them."""
        if not self._state.commit():
            return ()
        rows = self._state.read(
            "SELECT body FROM event WHERE node = ? AND seq > ? ORDER BY seq LIMIT ?",
            (self._node, max(after_seq, self.acked_seq), most),
        )
        events = tuple(_decoder.decode(body) for body in _fitting([row[0] for row in rows]))
        if events:
            self.handed_out_seq = max(self.handed_out_seq, events[-1].seq)
        return events

    def ack(self, seq: int) -> None:
        """Forgets all up to `seq`; a number from before this one changes nothing."""
        if seq <= self.acked_seq:
            return
        query = "SELECT seq FROM event WHERE node = ? AND seq <= ?"
        for (known,) in self._state.read(query, (self._node, seq)):
            self._state.remove(Table.EVENT, self._node, known)
            self.count -= 1
        self.last_seq = max(self.last_seq, seq)
        self._note_acked(seq)

    def meet(self, acked_seq: int) -> None:
        """What the console has of this node, as it says on a new connection. A number that this
        spool never handed out is of one that was lost, with a clock that was ahead of this one:
        what waits here the console has never seen, and gets numbers above."""
        if self._is_new or acked_seq > self.handed_out_seq:
            self._lift_above(max(acked_seq, self.acked_seq))
        else:
            self.ack(acked_seq)

    def _lift_above(self, seq: int) -> None:
        query = "SELECT body FROM event WHERE node = ? ORDER BY seq"
        waiting = [_decoder.decode(body) for (body,) in self._state.read(query, (self._node,))]
        if waiting and waiting[0].seq <= seq:
            for event in waiting:
                self._state.remove(Table.EVENT, self._node, event.seq)
            for number, event in enumerate(waiting, seq + 1):
                self._put(msgspec.structs.replace(event, seq=number))
            self._gap = None
            self.last_seq = seq + len(waiting)
        self.last_seq = max(self.last_seq, seq)
        self._note_acked(seq)

    def _note_acked(self, seq: int) -> None:
        self.acked_seq, self._is_new = seq, False
        self.handed_out_seq = max(self.handed_out_seq, seq)
        self._state.set_fact(self._node, "acked_seq", _encoder.encode(seq))

    def _add(self, event: Event) -> None:
        self._put(event)
        self.last_seq = event.seq
        self.count += 1

    def _put(self, event: Event) -> None:
        is_terminal = event.kind in TERMINAL_EVENTS
        self._state.put(Table.EVENT, self._node, event.seq, is_terminal, _encoder.encode(event))

    def _widen_gap(self) -> None:
        """Counts a dropped event in the gap at the end, or in a new one if that was sent."""
        self.tally.dropped += 1
        gap = self._gap
        if gap is not None and gap.seq == self.last_seq and gap.seq > self.handed_out_seq:
            self._gap = msgspec.structs.replace(gap, data={"dropped": gap.data["dropped"] + 1})
            self._put(self._gap)
            return
        self.tally.gaps += 1
        self._gap = Event(
            self.last_seq + 1, str(uuid7()), EventKind.GAP, self._wall(), data={"dropped": 1}
        )
        self._add(self._gap)


def _fitting(bodies: list[bytes]) -> list[bytes]:
    """As many from the front as fit a message; always at least one."""
    total = 0
    for position, body in enumerate(bodies):
        total += len(body)
        if total > MAX_BATCH_BYTES and position:
            return bodies[:position]
    return bodies
