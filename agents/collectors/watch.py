"""Sources on threads of their own: slow or broken, they hold up nobody.

Sources behind one door share a lane, and so a thread: each wake-up of a thread costs more than
most looks do. One that fails does not keep the next in its lane from being asked.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from agents.collectors.base import Findings, Look, Origin, Source
from agents.complaints import Complaints

log = logging.getLogger(__name__)

# A look that takes longer than this has failed, though its answer may still come.
LATE_S: Final = 1.0
# Whoever asks once a second does so now and then a moment before it is over.
EARLY_S: Final = 0.05
CLOSE_S: Final = 2.0

# Between two looks that a lane makes without being asked.
ALONE_EVERY_S: Final = 0.2
# So many of those are kept until somebody takes them.
MOST_KEPT: Final = 8

# All that one source found for the time for which it was asked.
Batch: TypeAlias = tuple[Origin, Findings]
# When a lane looked unasked, and what its sources found.
Kept: TypeAlias = tuple[float, list[Batch]]


class Watched:
    """What one source found last, and how it did."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.asked_at: float | None = None
        self._answered = True
        self._found: Batch | None = None
        self._look = Look(source.name, None, None, success=False, why="not asked yet")
        self._complaints = Complaints()

    def is_due(self, now: float) -> bool:
        last = self.asked_at
        if last is None or now < last:
            return True
        return now - last > self.source.period_s - EARLY_S and not self.source.is_idle

    def asked(self, now: float) -> None:
        self.asked_at, self._answered = now, False

    def fresh(self, now: float) -> Batch | None:
        """None when it is too old, or from a time to come: then the clock has gone back."""
        found = self._found
        if found is None or not 0.0 <= now - found[0].at <= self.source.max_age_s:
            return None
        return found

    def report(self, now: float) -> Look:
        asked_at = self.asked_at
        if not self._answered and asked_at is not None and now - asked_at > LATE_S:
            why = f"has not answered for {now - asked_at:.0f} s"
            return Look(self.source.name, asked_at, now - asked_at, success=False, why=why)
        return self._look

    def answer(self, now: float) -> None:
        """Asks it. Takes as long as it takes, and never raises."""
        began = time.perf_counter()
        why = ""
        try:
            self._found = Origin(self.source.name, now), self.source.look(now)
        except Exception as error:
            why = str(error) or type(error).__name__
            if self._complaints.due(why):
                log.warning("nothing from %s: %s", self.source.name, why)
        duration_s = time.perf_counter() - began
        self._look = Look(self.source.name, now, duration_s, not why, why)
        self._answered = True

    def close(self) -> None:
        try:
            self.source.close()
        except Exception:
            log.exception("%s could not be closed", self.source.name)


class Lane:
    """A thread that asks some sources, one after another."""

    def __init__(self, sources: Iterable[Source]) -> None:
        self.watched = tuple(Watched(source) for source in sources)
        self.prompt = any(each.source.prompt for each in self.watched)
        # How many looks follow on each that it is asked for, unless it is asked again before.
        self.alone = 0
        self._kept: deque[Kept] = deque(maxlen=MOST_KEPT)
        self._asked: queue.SimpleQueue[tuple[float, Sequence[Watched]] | None]
        self._asked = queue.SimpleQueue()
        # Held from the asking to the last answer.
        self._busy = threading.Lock()
        names = ", ".join(each.source.name for each in self.watched)
        self._thread = threading.Thread(target=self._run, name=names, daemon=True)
        self._thread.start()

    def ask(self, now: float) -> bool:
        """True when some source was due and is asked. Never waits; nothing is asked again before
        all have answered."""
        due = [each for each in self.watched if each.is_due(now)]
        if not due or not self._busy.acquire(blocking=False):
            return False
        for each in due:
            each.asked(now)
        self._asked.put((now, due))
        return True

    def take_kept(self) -> list[Kept]:
        """What it found unasked since the last call, oldest first."""
        return [self._kept.popleft() for _ in range(len(self._kept))]

    def wait(self, seconds: float) -> None:
        """Until all have answered, for so long at most."""
        if self._busy.acquire(timeout=seconds):
            self._busy.release()

    def close(self) -> None:
        """Waits a little for the sources to let go; one that hangs dies with this process."""
        self._asked.put(None)
        self._thread.join(CLOSE_S)

    def fresh(self, now: float) -> list[Batch]:
        """Of all its sources, what is not too old."""
        return [found for each in self.watched if (found := each.fresh(now)) is not None]

    def _run(self) -> None:
        asked = self._asked.get()
        while asked is not None:
            now, due = asked
            for each in due:
                each.answer(now)
            self._busy.release()
            asked = self._next(now)
        for each in self.watched:
            each.close()

    def _next(self, last_at: float) -> tuple[float, Sequence[Watched]] | None:
        """What it is asked for next; until then it looks unasked, if it is to."""
        for turn in range(1, self.alone + 1):
            due_at = last_at + turn * ALONE_EVERY_S
            try:
                return self._asked.get(timeout=max(0.0, due_at - time.monotonic()))
            except queue.Empty:
                self._look_unasked()
        return self._asked.get()

    def _look_unasked(self) -> None:
        if not self._busy.acquire(blocking=False):
            return  # it is asked in this moment
        now = time.monotonic()
        for each in self.watched:
            each.asked(now)
            each.answer(now)
        self._kept.append((now, self.fresh(now)))
        self._busy.release()
