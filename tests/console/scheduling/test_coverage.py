"""Missing, whole and partial coverage are told apart, and what each means."""

from __future__ import annotations

import pytest

from console.scheduling.coverage import Coverage


@pytest.mark.parametrize(
    ("covered", "using", "tone", "words"),
    [
        (None, None, "unknown", "xCUDA coverage not reported"),
        (0, 0, "healthy", "No process uses CUDA yet"),
        (2, 2, "healthy", "xCUDA coverage 2 of 2"),
        (1, 2, "busy", "xCUDA coverage 1 of 2"),
        (0, 2, "busy", "xCUDA coverage 0 of 2"),
    ],
)
def test_each_coverage_has_its_word_and_tone(covered, using, tone, words):
    coverage = Coverage(covered, using, may_escape=False)
    assert (coverage.tone, coverage.words) == (tone, words)


def test_a_process_that_escaped_is_unlimited_where_the_policy_allows_it():
    assert "unlimited" in Coverage(1, 2, may_escape=True).meaning
    assert "stops the job" in Coverage(1, 2, may_escape=False).meaning
    assert Coverage(2, 2, may_escape=True).meaning == ""
    assert Coverage(None, None, may_escape=True).meaning == ""
