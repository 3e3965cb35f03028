"""What nodes recorded while nobody heard them: written one after another, however many come back at
once, so that live telemetry never waits for the past."""

from __future__ import annotations

import logging
import time
from typing import Protocol

from django.db import InterfaceError, OperationalError

from agents.wire.messages import Backfill
from console.history import services
from console.telemetry.batches import InThread
from console.telemetry.refusals import Refusals

log = logging.getLogger(__name__)


class Sender(Protocol):
    """The connection that a back-fill came over."""

    node_id: int
    name: str
    behind_s: float

    def filled(self, until: float) -> None: ...


class Backfills:
    def __init__(self, in_thread: InThread, refused: Refusals) -> None:
        self.seconds_total = 0
        self._in_thread, self._refused = in_thread, refused
        # An agent has one on its way and waits; if it sends another, that one counts.
        self._waiting: dict[Sender, Backfill] = {}

    def put(self, sender: Sender, backfill: Backfill) -> None:
        if any(block.times for block in backfill.blocks):
            self._waiting[sender] = backfill
        else:
            self._refused.add("backfill: empty", sender.name)

    async def step(self) -> None:
        """The one that waits longest. While the database does not answer it is forgotten: without
        an answer the agent sends it again."""
        sender = next(iter(self._waiting), None)
        if sender is None:
            return
        blocks = self._waiting.pop(sender).blocks
        try:
            told = sender.node_id, blocks, time.time(), sender.behind_s
            written = await self._in_thread(services.backfill, *told)
        except (OperationalError, InterfaceError) as error:
            log.warning("%s: a back-fill is put off: %s", sender.name, error)
            return
        except ValueError as error:
            self._refused.add("backfill: no block of samples", sender.name, error)
        else:
            self.seconds_total += written
        sender.filled(max(at for block in blocks for at in block.times))
