"""What was refused, how often and why: counted always, logged every ten seconds at most."""

from __future__ import annotations

import logging
import time
from collections import Counter
from typing import Final

log = logging.getLogger(__name__)

LOG_EVERY_S: Final = 10.0


class Refusals:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._logged_at: dict[str, float] = {}

    def add(self, reason: str, source: str, detail: object = "", count: int = 1) -> None:
        """`reason` is one of a few fixed texts; what varies goes into `detail`."""
        self.counts[reason] += count
        now = time.monotonic()
        if now - self._logged_at.get(reason, -LOG_EVERY_S) < LOG_EVERY_S:
            return
        self._logged_at[reason] = now
        total = self.counts[reason]
        log.warning("refused from %s: %s %s (%d so far)", source, reason, detail, total)
