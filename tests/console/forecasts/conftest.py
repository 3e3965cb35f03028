"""The few commands of Redis that forecasts need, in a dict; and a fleet whose load a test sets."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
import redis

from console import live_state
from console.telemetry import live_store
from console.telemetry.latest import COLUMN


class FakeRedis:
    """`lost`: it does not answer."""

    def __init__(self) -> None:
        self.values: dict[str, object] = {}
        self.lost = False

    def _answer(self) -> dict[str, object]:
        if self.lost:
            raise redis.ConnectionError("lost")
        return self.values

    def get(self, key):
        return self._answer().get(key)

    def set(self, key, value, ex):
        self._answer()[key] = value

    def zrangebyscore(self, key, least, most):
        """No process has a live grid here."""
        self._answer()
        return []

    def exists(self, key):
        return key in self._answer()

    def delete(self, key):
        self._answer().pop(key, None)

    def hset(self, key, mapping):
        self._answer()[key] = {str(field).encode(): value for field, value in mapping.items()}

    def hget(self, key, field):
        return self._answer().get(key, {}).get(field.encode())

    def hgetall(self, key):
        return self._answer().get(key, {})

    def expire(self, key, seconds):
        self.lasts_s = seconds

    def execute(self):
        self._answer()

    @contextmanager
    def pipeline(self, transaction):
        yield self


@pytest.fixture
def cache(monkeypatch) -> FakeRedis:
    fake = FakeRedis()
    monkeypatch.setattr(live_state, "client", lambda: fake)
    return fake


@pytest.fixture
def load(monkeypatch, cache) -> dict[int | str, float | None]:
    """Online SM activity by GPU id, in percent, as of "at"; the others were not heard of."""
    percent: dict[int | str, float | None] = {}

    def fill(grid):
        for row, gpu_id in enumerate(grid.facts.ids.tolist()):
            if gpu_id in percent:
                grid.at[row] = percent["at"]
                value = percent[gpu_id]
                grid.values[row, COLUMN["sm_online_percent"]] = (
                    value if value is not None else "nan"
                )

    monkeypatch.setattr(live_store, "fill", fill)
    return percent
