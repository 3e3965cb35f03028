"""Saying a thing once, not ten times a second: a loop that fails must not fill the disk as well."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

EVERY_S: Final = 60.0
# Texts remembered; when there are more, saying one twice is the lesser evil.
MOST: Final = 1_000


class Complaints:
    """Which complaints are due."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._said_at: dict[str, float] = {}

    def due(self, text: str) -> bool:
        """True when this was not said within the last minute; it then counts as said."""
        now = self._clock()
        if now - self._said_at.get(text, float("-inf")) < EVERY_S:
            return False
        if len(self._said_at) >= MOST:
            self._said_at.clear()
        self._said_at[text] = now
        return True
