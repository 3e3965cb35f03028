"""A demo whose story goes on, read when the promised time is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.demo.running import Demo, running_demo

PROMISED_S = 120.0


@dataclass
class Story:
    """The demo's first page was seen at `seen_s` (monotonic)."""

    demo: Demo
    seen_s: float
    before: dict[str, Any]
    after: dict[str, Any] | None = None

    def read(self) -> None:
        counts = {
            "overloads_held": count(self.demo, "state=COMPLETED&origin=overload"),
            "waiting": count(self.demo, "state=PROPOSED"),
        }
        self.after = self.demo.fleet() | counts

    def wait(self) -> None:
        """Until it was read."""
        time.sleep(max(0.0, self.seen_s + PROMISED_S + 5.0 - time.monotonic()))


def count(demo: Demo, query: str) -> int:
    found: int = demo.json(f"/api/v1/evictions/?{query}")["count"]
    return found


@contextmanager
def running_story(folder: Path) -> Iterator[Story]:
    """The promise is about the clock on the wall, so a clock on the wall takes the reading."""
    with running_demo(folder, story=True) as demo:
        before = demo.fleet()
        demo.get("/")
        story = Story(demo, time.monotonic(), before)
        reading = threading.Timer(PROMISED_S, story.read)
        reading.start()
        yield story
        reading.cancel()
        reading.join()
