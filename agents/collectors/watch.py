"""One source on a thread of its own: slow or broken, it holds up nobody."""

from __future__ import annotations

import logging
import queue
import threading
import time
from typing import Final

from agents.collectors.base import Findings, Look, Source
from agents.complaints import Complaints

log = logging.getLogger(__name__)

# A look that takes longer than this has failed, though its answer may still come.
LATE_S: Final = 1.0
CLOSE_S: Final = 2.0


class Watched:
    """Asks the source when it is due and has answered the last time; keeps what it found."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._asked: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._asked_at: float | None = None
        self._found: tuple[float, Findings] | None = None
        self._look = Look(source.name, None, None, success=False, why="not asked yet")
        self._complaints = Complaints()
        self._thread = threading.Thread(
            target=self._run, name=f"collector {source.name}", daemon=True
        )
        self._thread.start()

    def ask(self, now: float) -> bool:
        """True when it was due and is asked. Never waits; a source that has not answered yet is
        not asked again."""
        last = self._asked_at
        due = last is None or now < last or now - last >= self.source.period_s
        if not due or not self._idle.is_set():
            return False
        self._idle.clear()
        self._asked_at = now
        self._asked.put(now)
        return True

    def wait(self, seconds: float) -> None:
        """Until it has answered, for so long at most."""
        self._idle.wait(seconds)

    def fresh(self, now: float) -> tuple[float, Findings] | None:
        """What it found and when it was asked, None when that is too old, or from a time to
        come: then the clock has gone back."""
        found = self._found
        if found is None or not 0.0 <= now - found[0] <= self.source.max_age_s:
            return None
        return found

    def report(self, now: float) -> Look:
        asked_at = self._asked_at
        if not self._idle.is_set() and asked_at is not None and now - asked_at > LATE_S:
            why = f"has not answered for {now - asked_at:.0f} s"
            return Look(self.source.name, asked_at, now - asked_at, success=False, why=why)
        return self._look

    def close(self) -> None:
        """Waits a little for the source to let go; one that hangs dies with this process."""
        self._asked.put(None)
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (asked_at := self._asked.get()) is not None:
            self._answer(asked_at)
            self._idle.set()
        try:
            self.source.close()
        except Exception:
            log.exception("%s could not be closed", self.source.name)

    def _answer(self, asked_at: float) -> None:
        began = time.perf_counter()
        why = ""
        try:
            self._found = asked_at, self.source.look(asked_at)
        except Exception as error:
            why = str(error) or type(error).__name__
            if self._complaints.due(why):
                log.warning("nothing from %s: %s", self.source.name, why)
        duration_s = time.perf_counter() - began
        self._look = Look(self.source.name, asked_at, duration_s, not why, why)
