"""What the console missed, told to it block by block. Pure: `now` is an argument.

It never stands in the way of what is live: a message of a minute of samples, the next not before a
second is over and not before the console has that one, so the console sets the pace where a whole
fleet comes back at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final, Protocol

from agents.wire import samples
from agents.wire.limits import MAX_BACKFILL_SECONDS
from agents.wire.messages import Backfill, Samples

# What is live comes first on a new connection; a fleet that comes back begins spread out.
FIRST_AFTER_S: Final = (1.0, 5.0)
EVERY_S: Final = 1.0
# A message that is not acknowledged so long is taken for lost.
ACK_TIMEOUT_S: Final = 60.0
# Half of what a message may have, as for events.
MAX_BLOCKS_BYTES: Final = 512 << 10


class Recorded(Protocol):
    """Where the samples are, see `ring.Ring`."""

    def after(self, at: float) -> Iterator[Samples]: ...


class Backfiller:
    """Of one node. `begin` is called on each connection."""

    def __init__(self, recorded: Recorded | None) -> None:
        """None: nothing is recorded, and nothing is told."""
        self._recorded = recorded
        self._left: Iterator[Samples] = iter(())
        self._held: Samples | None = None
        self._message: Backfill | None = None
        self._due_at = 0.0

    def begin(self, after: float | None, until: float, now: float) -> None:
        """`after`, `until`: Unix seconds, of what is wanted and of what is not told live. None: the
        console takes nothing."""
        self._message = self._held = None
        self._due_at = now + random.uniform(*FIRST_AFTER_S)
        if after is None or self._recorded is None:
            self._left = iter(())
        else:
            self._left = self._wanted(self._recorded, after, until)

    def acknowledge(self, until: float, now: float) -> None:
        message = self._message
        if message is not None and until >= message.blocks[-1].times[-1]:
            self._message = None
            self._due_at = max(now, self._due_at - ACK_TIMEOUT_S + EVERY_S)

    def take(self, now: float) -> Backfill | None:
        """The next message, when one is due; the same again when it got no answer."""
        if now < self._due_at:
            return None
        if self._message is None:
            self._message = self._next()
        self._due_at = now + ACK_TIMEOUT_S
        return self._message

    def _next(self) -> Backfill | None:
        blocks: list[Samples] = []
        seconds = size = 0
        while (block := self._held or next(self._left, None)) is not None:
            self._held = block
            seconds, size = seconds + len(block.times), size + len(block.deflated)
            if blocks and (seconds > MAX_BACKFILL_SECONDS or size > MAX_BLOCKS_BYTES):
                break
            blocks.append(block)
            self._held = None
        return Backfill(tuple(blocks)) if blocks else None

    @staticmethod
    def _wanted(recorded: Recorded, after: float, until: float) -> Iterator[Samples]:
        for block in recorded.after(after):
            wanted = samples.between(block, after, until)
            if wanted is not None:
                yield wanted
