"""A fault in one sentence, also where half of it is not known."""

from __future__ import annotations

import pytest

from console.faults import words
from console.faults.story import Process, State

JOB, RANK, ADS = (
    Process(1, "offline", "resnet-31"),
    Process(2, "online", "search-rank"),
    Process(3, "online", "ads"),
)


@pytest.mark.parametrize(
    ("first", "by", "code", "others", "said"),
    [
        (
            JOB, "the log", 700, (RANK,),
            "resnet-31 faulted first (code 700, named by the log); search-rank was hit by it.",
        ),
        (None, "", None, (), "Who faulted first is not known; nobody else was hit by it."),
        (
            JOB, "", None, (Process(9, "unknown"), RANK, ADS, Process(None, "unknown")),
            "resnet-31 faulted first; search-rank, ads and 2 others were hit by it.",
        ),
        (Process(7, "offline"), "", None, (RANK, ADS), "process 7 faulted first; search-rank and"
         " ads were hit by it."),
    ],
)  # fmt: skip
def test_the_sentence_names_online_first_and_counts_the_rest(first, by, code, others, said):
    assert words.sentence(first, by, code, others) == said


def test_an_outcome_that_is_not_known_is_not_called_a_recovery():
    assert words.outcome(State.RECOVERED, 3.2).startswith("Online was back after")
    assert words.outcome(State.RECOVERING, None) == "The node is recovering"
    assert words.outcome(State.NOT_RECOVERED, None) == "Online did not come back by itself"
    assert words.outcome(State.OVER, None) == "No online process was hit"
