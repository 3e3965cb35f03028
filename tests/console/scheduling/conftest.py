"""No Redis here: the live grid is what a test says, and peaks are the load of the moment."""

from __future__ import annotations

import pytest

from console.forecasts import outlook
from console.scheduling import peaks
from console.telemetry import live_store
from console.telemetry.latest import LiveGpu


@pytest.fixture
def grid(monkeypatch):
    """The live samples by GPU id, to be filled by the test."""
    samples: dict[int, LiveGpu] = {}
    monkeypatch.setattr(live_store, "read", lambda: samples)
    monkeypatch.setattr(peaks, "note", lambda percent_now, at: dict(percent_now))
    monkeypatch.setattr(outlook, "peaks", dict)
    return samples
