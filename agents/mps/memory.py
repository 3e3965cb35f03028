"""What the MPS side of a GPU must not forget when its agent is restarted in the middle of a fault.

Of a boot of the node: with the next one its processes and its MPS server are others. The time
away counts towards no deadline. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import msgspec

from agents.mps import timeline
from agents.mps.recovery import Recovery, Stage
from agents.mps.timeline import CUT_SHORT, Timeline

RESTARTED: Final = "the agent was restarted, and goes on from here"


@dataclass(frozen=True, slots=True)
class Memory:
    """`online`: how many online processes there were before the fault, or are."""

    recovery: Recovery = field(default_factory=Recovery)
    online: int = 0
    story: Timeline | None = None


class Kept(msgspec.Struct, frozen=True):
    """As it is written down; a stage by its name."""

    boot_id: str
    stage: str
    faults: tuple[float, ...]
    hooks: int
    online: int
    story: Timeline | None


def encode(memory: Memory, boot_id: str) -> bytes:
    at = memory.recovery
    kept = Kept(boot_id, at.stage.name, at.faults, at.hooks, memory.online, memory.story)
    return msgspec.json.encode(kept)


def decode(body: bytes | None, boot_id: str, now: float, wall: float) -> Memory:
    """`now` in monotonic, `wall` in unix seconds. What makes no sense is forgotten."""
    try:
        kept = msgspec.json.decode(body or b"", type=Kept)
        stage = Stage[kept.stage]
    except (msgspec.DecodeError, KeyError):
        return Memory()
    if kept.boot_id != boot_id:
        return Memory(story=_cut(kept.story, wall))
    recovery = Recovery(stage, now, kept.faults, kept.hooks)
    return Memory(recovery, kept.online, _resumed(kept.story, wall))


def _cut(story: Timeline | None, wall: float) -> Timeline | None:
    return story and timeline.end(story, f"{CUT_SHORT}the node was booted anew", wall)


def _resumed(story: Timeline | None, wall: float) -> Timeline | None:
    return story and timeline.add(story, RESTARTED, wall)
