"""No Redis here: the live grid is what a test says, and peaks are the load of the moment."""

from __future__ import annotations

import pytest

from console.scheduling import peaks, reallocation, rounds


@pytest.fixture
def grid(monkeypatch):
    """The live samples by GPU id, to be filled by the test."""
    samples = {}
    monkeypatch.setattr(rounds.live_store, "read", lambda: samples)
    monkeypatch.setattr(reallocation.live_store, "read", lambda: samples)
    monkeypatch.setattr(peaks, "note", lambda percent_now, at: dict(percent_now))
    return samples
