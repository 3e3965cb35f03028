from __future__ import annotations

import sqlite3

import pytest

from agents.spool import MAX_BATCH_BYTES, Spool
from agents.state import StateFile
from agents.wire.limits import MAX_EVENTS_PER_BATCH
from agents.wire.names import EventKind


@pytest.fixture
def state(tmp_path):
    state = StateFile(tmp_path)
    yield state
    state.close()


def spool_of(state, at=1_000.0, capacity=100):
    return Spool(state, "node-01", lambda: at, capacity)


def fill(spool, count=3, kind=EventKind.FROZEN, **data):
    for _ in range(count):
        spool.append(kind, gpu_index=0, data=data)


def numbers(events):
    return [event.seq for event in events]


def test_events_keep_their_order_and_numbers_across_a_restart(state):
    fill(spool_of(state))
    heir = spool_of(state, at=2_000.0)
    fill(heir, 1)
    events = heir.batch(0)
    assert numbers(events) == list(range(1_000_001, 1_000_005))
    assert len({event.event_id for event in events}) == 4


def test_an_acknowledged_prefix_is_gone_for_good(state):
    spool = spool_of(state)
    fill(spool)
    spool.ack(spool.last_seq - 1)
    assert numbers(spool.batch(0)) == [spool.last_seq]
    assert numbers(spool_of(state).batch(0)) == [spool.last_seq]


def test_a_number_acknowledged_again_changes_nothing(state):
    spool = spool_of(state)
    fill(spool)
    spool.ack(spool.last_seq)
    fill(spool)
    spool.ack(spool.last_seq - 3)
    assert spool.count == 3


def test_numbers_go_on_when_all_is_acknowledged(state):
    spool = spool_of(state)
    fill(spool)
    spool.ack(spool.last_seq)
    fill(heir := spool_of(state), 1)
    assert heir.last_seq == spool.last_seq + 1


def test_a_lost_state_file_never_leads_to_a_number_seen_before(state, tmp_path):
    spool = spool_of(state, at=1_000.0)
    fill(spool)
    anew = StateFile(tmp_path / "anew")
    assert spool_of(anew, at=1_010.0).last_seq > spool.last_seq
    anew.close()


def test_nothing_is_handed_out_before_it_is_durable(state, tmp_path):
    spool = spool_of(state)
    fill(spool)
    handed_out = spool.batch(0)
    reader = sqlite3.connect(tmp_path / "agent.sqlite3")
    durable = [row[0] for row in reader.execute("SELECT seq FROM event ORDER BY seq")]
    reader.close()
    assert durable == numbers(handed_out)


def test_a_full_spool_counts_what_it_drops(state):
    spool = spool_of(state, capacity=2)
    fill(spool, 5)
    events = spool.batch(0)
    assert [event.kind for event in events] == ["frozen", "frozen", "gap"]
    assert events[-1].data == {"dropped": 3}


def test_a_full_spool_keeps_terminal_outcomes(state):
    spool = spool_of(state, capacity=2)
    fill(spool, 4)
    fill(spool, 2, EventKind.PLACEMENT_ENDED)
    kinds = [event.kind for event in spool.batch(0)]
    assert kinds.count(EventKind.PLACEMENT_ENDED) == 2


def test_a_gap_that_was_sent_is_not_changed_any_more(state):
    spool = spool_of(state, capacity=2)
    fill(spool, 3)
    spool.batch(0)
    fill(spool, 1)
    gaps = [event.data for event in spool.batch(0) if event.kind is EventKind.GAP]
    assert gaps == [{"dropped": 1}, {"dropped": 1}]


def test_a_batch_stays_within_a_message(state):
    spool = spool_of(state, capacity=1_000)
    fill(spool, MAX_EVENTS_PER_BATCH + 1)
    assert len(spool.batch(0)) == MAX_EVENTS_PER_BATCH
    spool.ack(spool.last_seq)
    fill(spool, 3, why="x" * (MAX_BATCH_BYTES // 2))
    assert len(spool.batch(0)) == 1


def test_nodes_of_one_process_have_numbers_of_their_own(state):
    here, there = spool_of(state), Spool(state, "node-02", lambda: 5_000.0)
    fill(here)
    assert there.batch(0) == ()


def fill_and_meet(spool, acked_seq, count=3):
    """The kinds of events that the console gets, and their numbers, after it said what it has."""
    fill(spool, count)
    spool.meet(acked_seq)
    return numbers(spool.batch(acked_seq))


def test_a_spool_that_was_lost_with_a_clock_set_back_goes_on_above_what_the_console_has(state):
    console_has = 5_000_000
    spool = spool_of(state, at=1_000.0)
    assert fill_and_meet(spool, console_has) == [console_has + 1, console_has + 2, console_has + 3]
    fill(spool, 1)
    assert spool.last_seq == console_has + 4
    assert spool.count == 4


def test_a_new_spool_keeps_its_numbers_where_the_console_has_none_of_them(state):
    spool = spool_of(state, at=1_000.0)
    assert fill_and_meet(spool, 0) == [1_000_001, 1_000_002, 1_000_003]


def test_a_new_spool_that_met_nobody_is_still_new_to_the_next_agent(state):
    fill(spool_of(state, at=1_000.0))
    heir = spool_of(state, at=2_000.0)
    assert fill_and_meet(heir, 1_000_002, count=0) == [1_000_003, 1_000_004, 1_000_005]


def test_what_the_console_has_of_this_spool_is_not_kept(state):
    spool = spool_of(state)
    first = fill_and_meet(spool, 0)
    spool.meet(first[1])
    assert numbers(spool.batch(first[1])) == first[2:]


def test_a_console_that_forgot_does_not_bring_back_what_is_gone(state):
    spool = spool_of(state)
    first = fill_and_meet(spool, 0)
    spool.ack(first[-1])
    spool.meet(first[0])  # its database was restored
    assert spool.batch(first[0]) == ()
    fill(spool, 1)
    assert numbers(spool.batch(first[0])) == [first[-1] + 1]


def test_an_event_that_is_not_durable_is_not_handed_out(state, monkeypatch):
    spool = spool_of(state)
    fill(spool)
    monkeypatch.setattr(state, "commit", lambda: False)
    assert spool.batch(0) == ()
    monkeypatch.undo()
    assert len(spool.batch(0)) == 3


def test_a_terminal_outcome_is_kept_while_the_spool_is_full_for_long(state):
    spool = spool_of(state, capacity=2)
    for _ in range(50):
        fill(spool, 3)
        fill(spool, 1, EventKind.PLACEMENT_ENDED)
    events = spool.batch(0)
    kinds = [event.kind for event in events]
    assert kinds.count(EventKind.PLACEMENT_ENDED) == 50
    dropped = sum(event.data["dropped"] for event in events if event.kind is EventKind.GAP)
    assert kinds.count(EventKind.FROZEN) + dropped == 150
    assert numbers(events) == list(range(events[0].seq, events[0].seq + len(events)))
