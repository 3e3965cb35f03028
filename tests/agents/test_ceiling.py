"""A node whose own settings say how much may be done there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.wire.names import SHARING_MODES, EventKind, SharingMode
from tests.agents import cast
from tests.agents.cast import Stage, desired, placement


@pytest.fixture
def capped(tmp_path, monkeypatch):
    """Makes a node with a ceiling."""
    made = []
    whole = cast.identity

    def node(ceiling):
        def identity(boot_id="boot 1"):
            of = whole(boot_id)
            return replace(of, gpus=tuple(replace(gpu, ceiling=ceiling) for gpu in of.gpus))

        monkeypatch.setattr(cast, "identity", identity)
        made.append(Stage(tmp_path))
        return made[-1]

    yield node
    for stage in made:
        stage.die()


def test_under_observe_nothing_is_done_whatever_is_ordered(capped):
    stage = capped(SharingMode.OBSERVE)
    stage.healthy()
    stage.order(desired(placement(), generation=2))
    stage.run(5)
    assert stage.jobs.asked == []
    assert {gpu.mode for gpu in stage.status.gpus} == {SharingMode.OBSERVE}
    assert {gpu.unshareable_fact for gpu in stage.status.gpus} == {
        "the node's own settings allow no more than observe (sharing_ceiling)"
    }
    assert EventKind.PLACEMENT_STARTED not in {event.kind for event in stage.events}


@pytest.mark.parametrize("ceiling", SharingMode)
@pytest.mark.parametrize("ordered", SharingMode)
def test_the_lower_of_the_two_holds(capped, ceiling, ordered):
    stage = capped(ceiling)
    stage.order(desired(mode=ordered))
    stage.run(1)
    lower = min(ceiling, ordered, key=SHARING_MODES.index)
    assert {gpu.mode for gpu in stage.status.gpus} == {lower}
    stands_in_the_way = ordered is SharingMode.ENFORCE and lower is not ordered
    assert {bool(gpu.unshareable_fact) for gpu in stage.status.gpus} == {stands_in_the_way}
