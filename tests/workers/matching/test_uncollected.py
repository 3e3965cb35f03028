"""While a round goes on no garbage is collected; afterwards it is again, if it was."""

from __future__ import annotations

import gc

import pytest

from tests.benchmarks.matching.cluster import Cluster
from workers.matching.decide import decide
from workers.matching.uncollected import uncollected


@pytest.fixture
def collections():
    """The generation of each collection from now on."""
    seen = []

    def note(phase, facts):
        if phase == "start":
            seen.append(facts["generation"])

    gc.callbacks.append(note)
    yield seen
    gc.callbacks.remove(note)


def test_nothing_is_collected_until_a_plan_is_let_go(collections):
    snapshot = Cluster(60, 80, 12, 1).snapshot()
    with uncollected():
        collections.clear()
        plan = decide(snapshot)
        plan.rivals()
        assert collections == []
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_round_that_fails_leaves_the_collector_on():
    with pytest.raises(ZeroDivisionError), uncollected():
        _ = 1 / 0
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
