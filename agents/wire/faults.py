"""Faults that the demo's panel and the tests ask of a simulated fleet, over a Unix socket.

One JSON line a request, one JSON line back: {"ok": true} or {"ok": false, "error": "…"}.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

# Beyond these the world of the simulation makes no sense any more.
Factor: TypeAlias = Annotated[float, Meta(gt=0, le=100)]
Seconds: TypeAlias = Annotated[float, Meta(gt=0, le=3_600)]
Period: TypeAlias = Annotated[float, Meta(ge=0.5, le=600)]
Nodes: TypeAlias = Annotated[tuple[str, ...], Meta(max_length=100)]
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


class Lie(StrEnum):
    """What a node that lies says in its telemetry."""

    SENTINEL = "sentinel"
    NEGATIVE = "negative"
    INFINITE = "infinite"
    FROM_THE_PAST = "from_the_past"
    STRANGE_STATE = "strange_state"
    STRANGE_GPU = "strange_gpu"
    TOO_MANY_GPUS = "too_many_gpus"
    TORN = "torn"


class Silence(msgspec.Struct, frozen=True, tag="silence"):
    """The nodes (none named: all) hang: their connections stay, and nothing is said on them."""

    nodes: Nodes = ()
    duration_s: Seconds = 30.0


class Lies(msgspec.Struct, frozen=True, tag="lies"):
    """What the nodes say of their GPUs cannot be true."""

    lie: Lie
    nodes: Nodes = ()
    duration_s: Seconds = 30.0


class Flapping(msgspec.Struct, frozen=True, tag="flapping"):
    """The connections of the nodes break off again and again, once a period."""

    nodes: Nodes = ()
    period_s: Period = 5.0
    duration_s: Seconds = 30.0


class Skew(msgspec.Struct, frozen=True, tag="skew"):
    """The clocks of the nodes are ahead by `skew_s`, or behind."""

    skew_s: Annotated[float, Meta(ge=-86_400, le=86_400)]
    nodes: Nodes = ()
    duration_s: Seconds = 30.0


class DuplicateUuid(msgspec.Struct, frozen=True, tag="duplicate_uuid"):
    """The node says that a GPU of it has the UUID of the same GPU of another node."""

    node: str
    of: str
    gpu_index: int = 0
    duration_s: Seconds = 30.0


class Storm(msgspec.Struct, frozen=True, tag="storm"):
    """All connections break off in one moment, and come back as each agent tries again."""


class Answer(msgspec.Struct, frozen=True):
    ok: bool
    error: str = ""
    detail: str = ""


Fault = (
    TrafficSpike
    | KillNode
    | CutConsole
    | GpuError
    | Silence
    | Lies
    | Flapping
    | Skew
    | DuplicateUuid
    | Storm
)

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
