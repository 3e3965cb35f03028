"""Makes the page of the fleet once a period, in a worker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from console.metrics.exposition import render
from console.metrics.fleet import page, reading, store


def render_fleet(now: Callable[[], datetime]) -> None:
    """Read, write, put down. Raises Unavailable without Redis."""
    store.put(render(page.families(reading.read(now))))
