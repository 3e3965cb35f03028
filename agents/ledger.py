"""Every placement this node was ever asked to run and the console may still name, on disk.

The row is written before the spawn. A placement id that has a row is never started again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from agents.state import StateFile, Table
from agents.wire.messages import DesiredPlacement
from agents.wire.names import Avoid, EndReason, Origin


class Stopping(msgspec.Struct, frozen=True):
    """A stop under way. `machine` is `stopping.StopState` as plain data; a stop of the node's
    own that an earlier version began has no eviction id."""

    origin: Origin
    end_reason: EndReason
    why: str
    machine: dict[str, Any]
    eviction_id: str | None = None
    signalled: bool = False
    avoid: Avoid | None = None


class Ended(msgspec.Struct, frozen=True):
    """How a placement ended; work in GPU-seconds, None where nobody knows."""

    reason: EndReason
    why: str = ""
    exit_code: int | None = None
    lost_work_s: float | None = None
    progress: float | None = None
    work_done_s: float | None = None
    signalled: bool = False
    remarks: tuple[str, ...] = ()
    avoid: Avoid | None = None


class Record(msgspec.Struct, frozen=True):
    """One placement. `started` is set once the process was seen alive, `profiled` once its
    measurement was told."""

    placement: DesiredPlacement
    started: bool = False
    stopping: Stopping | None = None
    ended: Ended | None = None
    profiled: bool = False


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Record] = msgspec.msgpack.Decoder(Record)


class Ledger:
    """The records of one node."""

    def __init__(self, state: StateFile, node: str) -> None:
        self._state, self._node = state, node
        rows = state.read("SELECT placement_id, body FROM placement WHERE node = ?", (node,))
        self._records = {placement_id: _decoder.decode(body) for placement_id, body in rows}

    def __contains__(self, placement_id: str) -> bool:
        return placement_id in self._records

    def __iter__(self) -> Iterator[Record]:
        return iter(tuple(self._records.values()))

    def put(self, record: Record) -> None:
        """Durable with the next commit of the state file."""
        placement_id = record.placement.placement_id
        self._state.put(Table.PLACEMENT, self._node, placement_id, _encoder.encode(record))
        self._records[placement_id] = record

    def drop(self, placement_id: str) -> None:
        self._state.remove(Table.PLACEMENT, self._node, placement_id)
        del self._records[placement_id]
