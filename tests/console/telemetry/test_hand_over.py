"""Two real web processes behind one address, and a real fleet: one of them ends."""

from __future__ import annotations

import secrets

import pytest

from console.telemetry.latest import STALE_S
from tests.benchmarks.telemetry.pair import oldest_s, pair, until_fresh

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

NODES, GPUS = 3, 2
# A value is a second old at most before the next one comes; a process that ends adds as much. On a
# machine that is busy with other tests it is older while nothing happens, too.
PERIOD_S = ADDED_S = 1.0


@pytest.fixture
def two(tmp_path):
    told = {
        "DATABASE_URL": f"sqlite:///{tmp_path / 'console.sqlite3'}",
        "MUXFLOW_REDIS_PREFIX": f"hand-over-{secrets.token_hex(4)}",
    }
    with pair(tmp_path, told, NODES, GPUS, NODES * GPUS) as made:
        yield made


def test_no_gpu_is_without_fresh_data_while_a_process_ends(two):
    first = two.web()
    two.fleet()
    until_fresh(two.ages)
    second = two.web()
    until_fresh(lambda: two.ages(second))
    usual_s = max(oldest_s(ages) for ages in two.seen())
    assert usual_s <= STALE_S, "nothing is fresh before anything ends"
    first.terminate()
    most_s = max(PERIOD_S, usual_s) + ADDED_S
    assert [ages for ages in two.seen(first) if oldest_s(ages) > most_s] == []
    assert first.returncode in (0, -15)
    until_fresh(lambda: two.ages(second))
