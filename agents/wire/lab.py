"""What the demo's panel asks of the machine of its real node, over a Unix socket, and hears.

One JSON line a request, one JSON line back.
"""

from __future__ import annotations

import msgspec


class Terminate(msgspec.Struct, frozen=True, tag="terminate"):
    """Send SIGTERM to a job that runs there, amid its kernels: to one under xCUDA, or to one that
    runs without."""

    under_xcuda: bool


class Tell(msgspec.Struct, frozen=True, tag="tell"):
    """Say what came of it."""


class Restart(msgspec.Struct, frozen=True, tag="restart"):
    """Start an online service again that does not answer: the node's restart hook."""

    service: str


class Press(msgspec.Struct, frozen=True):
    """One SIGTERM and what came of it so far. Times are seconds since it was sent, `at` is unix.

    `in_flight`: kernels of the job on the GPU at that moment. `gone_after_s` None: its process
    lives. `ending` is how its end looked to the GPU's MPS server: "released" (its contexts given
    back), "idle", "unsafe" (amid a kernel) or "failed". `answered` and `lost` are requests to the
    online service since. `back_after_s` None: it did not stop answering, or has not come back.
    """

    under_xcuda: bool
    at: float
    gpu_uuid: str
    service: str
    job: str
    placement_id: str
    pid: int
    in_flight: int
    watched_s: float = 0.0
    watching: bool = True
    gone_after_s: float | None = None
    ending: str = ""
    answered: int = 0
    lost: int = 0
    back_after_s: float | None = None


class Said(msgspec.Struct, frozen=True):
    """`error` says why nothing was done, "" when it was; `detail` what was. `presses` are the
    last of each kind."""

    error: str = ""
    detail: str = ""
    presses: tuple[Press, ...] = ()


Question = Terminate | Tell | Restart

_question: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)
_said: msgspec.json.Decoder[Said] = msgspec.json.Decoder(Said)


def encode(message: Question | Said) -> bytes:
    return msgspec.json.encode(message) + b"\n"


def decode_question(line: bytes) -> Question:
    """Raises msgspec.DecodeError when the line is none."""
    return _question.decode(line)


def decode_said(line: bytes) -> Said:
    """Raises msgspec.DecodeError when the line is none."""
    return _said.decode(line)
