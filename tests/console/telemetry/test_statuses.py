from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agents.wire.messages import GpuStatus, PlacementStatus, Status
from agents.wire.names import GpuState, PlacementState
from console.telemetry.statuses import PROGRESS_EVERY_S, Statuses

MOST = 100


def status(
    generation: int = 1, *, progress: float | None = None, why: str = "quiet", nonce: str = "n"
) -> Status:
    running = PlacementStatus("p", PlacementState.RUNNING, progress=progress)
    gpus = (GpuStatus(0, GpuState.HEALTHY, 1.0, why),)
    return Status(nonce, generation, {}, gpus, () if progress is None else (running,))


def write(statuses: Statuses, now: float) -> list[int]:
    reports = statuses.take(now, MOST, MOST)
    statuses.written(reports, now)
    return [node_id for node_id, _ in reports]


def test_what_says_nothing_new_is_not_written():
    statuses = Statuses()
    statuses.put(1, status(nonce="a"))
    assert write(statuses, 0) == [1]
    statuses.put(1, status(nonce="b"))
    assert write(statuses, 100) == []


def test_news_are_written_at_once_and_progress_now_and_then():
    statuses = Statuses()
    statuses.put(1, status(progress=0.1))
    assert write(statuses, 0) == [1]
    statuses.put(1, status(progress=0.2))
    assert write(statuses, PROGRESS_EVERY_S - 1) == []
    statuses.put(1, status(2, progress=0.2))
    assert write(statuses, PROGRESS_EVERY_S - 1) == [1]
    statuses.put(1, status(2, progress=0.3))
    assert write(statuses, 2 * PROGRESS_EVERY_S) == [1]
    statuses.put(1, status(2, progress=0.3, why="busier"))
    assert write(statuses, 3 * PROGRESS_EVERY_S) == [1]


def test_news_go_before_what_only_moves_and_in_the_order_in_which_they_came():
    statuses = Statuses()
    for node_id in (1, 2, 3, 4):
        statuses.put(node_id, status(progress=0.1))
    assert write(statuses, 0) == [1, 2, 3, 4]
    for node_id, generation in ((1, 1), (4, 2), (2, 2), (3, 1)):
        statuses.put(node_id, status(generation, progress=0.2))
    statuses.put(4, status(3, progress=0.3))
    assert [report.node_id for report in statuses.take(10, 3, 1)] == [4, 2, 1]


def test_a_node_that_comes_back_is_written_whatever_it_says():
    statuses = Statuses()
    statuses.put(1, status())
    write(statuses, 0)
    statuses.forget(1)
    assert len(statuses) == 0
    statuses.put(1, status())
    assert write(statuses, 1) == [1]


def test_what_a_node_said_before_it_went_is_still_written():
    statuses = Statuses()
    statuses.put(1, status(progress=0.1))
    write(statuses, 0)
    statuses.put(1, status(progress=0.2))
    statuses.forget(1)
    assert write(statuses, 0.1) == [1]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("says"), st.integers(1, 3), st.integers(1, 3)),
        st.tuples(st.just("takes"), st.integers(1, 2), st.just(0)),
        st.tuples(st.just("stores"), st.just(0), st.just(0)),
        st.tuples(st.just("fails"), st.just(0), st.just(0)),
        st.tuples(st.just("leaves"), st.integers(1, 3), st.just(0)),
    ),
    max_size=40,
)


@given(steps)
def test_in_the_end_the_database_knows_what_each_node_said_last(done):
    """However its calls fail, and whatever comes while one is under way."""
    statuses, said, stored = Statuses(), {}, {}
    under_way: list[Any] = []
    for what, first, second in done:
        if what == "says":
            said[first] = second
            statuses.put(first, status(second))
        elif what == "takes" and not under_way:
            under_way = statuses.take(0, first, first)
        elif what == "stores":
            stored |= {node_id: told.observed_generation for node_id, told in under_way}
            statuses.written(under_way, 0)
            under_way = []
        elif what == "fails":
            statuses.give_back(under_way)
            under_way = []
        elif what == "leaves":
            statuses.forget(first)
    statuses.give_back(under_way)
    while reports := statuses.take(0, MOST, MOST):
        stored |= {node_id: told.observed_generation for node_id, told in reports}
        statuses.written(reports, 0)
    assert stored == said
