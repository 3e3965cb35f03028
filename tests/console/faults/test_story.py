"""Whatever stands in a node's story, what is read of it can be stored and shown."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console.faults import story
from console.faults.story import Process, State

ID = "018f0000-0000-7000-8000-000000000001"


def read(**data):
    return story.read({"fault_id": ID, **data})


def test_a_story_is_read_as_the_node_told_it():
    told = read(
        why="illegal access",
        first={"pid": 7, "side": "offline", "name": "resnet-31", "placement_id": ID},
        first_by="the log",
        code=700,
        others=[{"pid": 9, "side": "online", "name": "search-rank", "placement_id": None}],
        moments=[{"after_s": 0.0, "what": "seen"}, {"after_s": 2.5, "what": "restarted"}],
        recovered_s=3,
        ended=True,
    )
    assert told.id == UUID(ID)
    assert told.first == Process(7, "offline", "resnet-31", ID)
    assert [one.name for one in told.others] == ["search-rank"]
    assert [one.after_s for one in told.moments] == [0.0, 2.5]
    assert (told.code, told.recovered_s, told.ended) == (700, 3.0, True)


@pytest.mark.parametrize("fault_id", [None, 7, "", "no UUID", [ID], {"id": ID}])
def test_a_story_without_an_id_is_no_story(fault_id):
    with pytest.raises(ValueError, match=r"no id|badly formed"):
        story.read({"fault_id": fault_id, "why": "x"})


@pytest.mark.parametrize(
    ("data", "name"),
    [
        ({"code": 1 << 40}, "code"),
        ({"code": True}, "code"),
        ({"code": "700"}, "code"),
        ({"recovered_s": -1}, "recovered_s"),
        ({"recovered_s": float("nan")}, "recovered_s"),
        ({"recovered_s": 1e300}, "recovered_s"),
        ({"first": "resnet-31"}, "first"),
    ],
)
def test_a_value_that_cannot_be_is_missing_and_never_zero(data, name):
    assert getattr(read(**data), name) is None


def test_too_much_is_cut():
    told = read(
        why="y" * 10_000,
        first_by="z" * 10_000,
        others=[{"pid": 1, "side": "online", "name": "n" * 10_000}] * 1_000,
        moments=[{"after_s": 1, "what": "w" * 10_000}] * 1_000,
    )
    assert len(told.why) == story.WHY_CHARS
    assert len(told.first_by) == story.BY_CHARS
    assert (len(told.others), len(told.moments)) == (story.MAX_PROCESSES, story.MAX_MOMENTS)
    assert len(told.others[0].name) == 128


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["pid", "side", "name", "placement_id", "after_s", "what"]), inner
        )
    ),
    max_leaves=12,
)
FIELDS = ["why", "first", "first_by", "code", "others", "moments", "recovered_s", "ended"]


@given(st.dictionaries(st.sampled_from(FIELDS), ANYTHING))
def test_no_data_breaks_the_reading(data):
    told = story.read({"fault_id": str(uuid4()), **data})
    assert told.why
    assert all(one.after_s >= 0 for one in told.moments)
    assert all(one.side in {"online", "offline", "unknown"} for one in told.others)


@pytest.mark.parametrize(
    ("recovered_s", "over", "online", "state"),
    [
        (None, False, True, State.RECOVERING),
        (2.0, False, True, State.RECOVERED),
        (2.0, True, True, State.RECOVERED),
        (None, True, True, State.NOT_RECOVERED),
        (None, True, False, State.OVER),
    ],
)
def test_the_state_is_what_the_story_says_of_online(recovered_s, over, online, state):
    assert story.state(recovered_s, over=over, online=online) is state
