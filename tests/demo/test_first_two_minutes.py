"""Two minutes after the first page a newcomer has seen the value."""

from __future__ import annotations

import pytest

from tests.demo.story import Story

pytestmark = [
    pytest.mark.demo,
    pytest.mark.timeout(240),
    pytest.mark.story,
]


def test_the_story_shows_its_value_within_two_minutes(story: Story) -> None:
    story.wait()
    before, after = story.before, story.after
    assert after is not None
    assert before["sharing"] == 0
    assert after["sm_activity"] >= 1.5 * before["sm_activity"]
    assert after["freezes_total"] >= 1
    assert after["overloads_held"] >= 1
    assert after["pending_evictions"] == after["waiting"] >= 1
