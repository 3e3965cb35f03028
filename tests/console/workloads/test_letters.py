"""What an owner reads of an eviction."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.wire.names import Origin
from console.evictions.models import Eviction
from console.workloads import letters
from console.workloads.letters import Removal
from tests.console.inventory.cast import NOW

OVERLOAD = Removal(
    job="resnet-31",
    gpu="node-07 / GPU 3",
    to_gpu="",
    origin=Origin.OVERLOAD,
    state="COMPLETED",
    at=NOW,
    why="SM activity 97 % for 3 s, limit 92 %",
    reason="",
    decided_by="",
    reaction_ms=400,
    lost_work_s=840,
    checkpoint=True,
    finished_first=False,
)


def text(**changes) -> str:
    """With plain spaces between number and unit."""
    sentences = " ".join(letters.body(replace(OVERLOAD, **changes)))
    return " ".join(sentences.split())


def test_an_overload_tells_why_how_fast_and_what_it_cost():
    assert letters.subject(OVERLOAD) == "Taken off node-07 / GPU 3"
    assert text() == (
        "The online work on that GPU needed it: SM activity 97 % for 3 s, limit 92 %."
        " Online work goes first. It was held 0.4 s after the first sample over the limit."
        " 14 min of work since its last checkpoint was lost."
    )


def test_what_the_node_decided_is_not_laid_at_a_persons_door():
    told = text(origin=Origin.POLICY, why="the lease expired", by_node=True)
    assert told.startswith("Its node took it off by itself: the lease expired.")
    assert "by hand" not in told


def test_work_that_was_saved_not_saved_and_not_known_read_differently():
    assert "nothing was lost" in text(lost_work_s=0)
    assert "saves no work by itself" in text(checkpoint=False)
    assert "not known" in text(lost_work_s=None)


def test_a_person_is_named_with_their_reason():
    told = text(origin=Origin.DRAIN, decided_by="M. Ortega", reason="new driver", reaction_ms=None)
    assert told.startswith("M. Ortega is emptying the node: new driver.")


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("state", list(Eviction.State))
def test_every_origin_in_every_state_has_a_subject_and_a_sentence(origin, state):
    removal = replace(OVERLOAD, origin=origin, state=state)
    assert letters.subject(removal)
    assert all(sentence.endswith(".") for sentence in letters.body(removal))


def test_nothing_is_said_to_be_lost_before_it_is():
    assert "lost" not in text(state="PROPOSED")
    assert "lost" not in text(finished_first=True)


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ("QUEUED", "at place 4"),
        ("PLACED", "runs on node-02 / GPU 0 now"),
        ("SUCCEEDED", "finished"),
        ("FAILED", "not tried again"),
        ("CANCELLED", "does not come back"),
    ],
)
def test_the_owner_is_told_what_becomes_of_the_job(state, says):
    assert says in letters.outlook(state, 4, "node-02 / GPU 0")
