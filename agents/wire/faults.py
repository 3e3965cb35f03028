"""Faults that the demo's panel and the tests ask of a simulated fleet, over a Unix socket.

One JSON line a request, one JSON line back: {"ok": true} or {"ok": false, "error": "…"}.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

# Beyond these the world of the simulation makes no sense any more.
Factor: TypeAlias = Annotated[float, Meta(gt=0, le=100)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=3_600)]
Xid: TypeAlias = Annotated[int, Meta(ge=0, le=1_000)]


class TrafficSpike(msgspec.Struct, frozen=True, tag="traffic_spike"):
    """Multiply the load of one service (or of the busiest shared GPU's) for a while."""

    factor: Factor = 2.5
    duration_s: Seconds = 20.0
    service: str | None = None


class KillNode(msgspec.Struct, frozen=True, tag="kill_node"):
    """The node vanishes with its jobs, as if it lost power, and boots again afterwards."""

    node: str
    down_s: Seconds = 30.0


class CutConsole(msgspec.Struct, frozen=True, tag="cut_console"):
    """The node lives, but its connection to the console is cut for a while."""

    node: str
    duration_s: Seconds = 30.0


class GpuError(msgspec.Struct, frozen=True, tag="gpu_error"):
    """The GPU reports this XID once."""

    node: str
    gpu_index: int
    xid: Xid = 79


class Answer(msgspec.Struct, frozen=True):
    ok: bool
    error: str = ""
    detail: str = ""


Fault = TrafficSpike | KillNode | CutConsole | GpuError

_decoder: msgspec.json.Decoder[Fault] = msgspec.json.Decoder(Fault)
_answer: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)


def encode(message: Fault | Answer) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def decode_fault(line: bytes) -> Fault:
    """Raises msgspec.DecodeError when the line is not a fault of this list."""
    return _decoder.decode(line)


def decode_answer(line: bytes) -> Answer:
    """Raises msgspec.DecodeError when the line is not an answer."""
    return _answer.decode(line)
