"""How many events are under way at once, and when they are sent again. On a clock of its own."""

from __future__ import annotations

import pytest

from agents.outbox import ACK_TIMEOUT_S, Outbox
from agents.spool import Spool
from agents.state import StateFile
from agents.wire.limits import MAX_EVENTS_PER_BATCH
from agents.wire.messages import EventBatch
from agents.wire.names import EventKind


class Post:
    """An outbox and its spool; numbers count from the first event."""

    def __init__(self, folder):
        self.state = StateFile(folder)
        self.spool = Spool(self.state, "node-01", lambda: 1.0)
        self.outbox = Outbox(self.spool)
        self.first = self.spool.last_seq + 1
        self.now = 100.0

    def fill(self, count):
        for _ in range(count):
            self.spool.append(EventKind.FROZEN, gpu_index=0)

    def take(self):
        """First and last of the next batch, None where there is none."""
        batch = self.outbox.take(self.now)
        if not isinstance(batch, EventBatch):
            return None
        return batch.events[0].seq - self.first, batch.events[-1].seq - self.first

    def acknowledge(self, number):
        self.outbox.acknowledge(self.first + number)


@pytest.fixture
def post(tmp_path):
    post = Post(tmp_path)
    post.outbox.resume(0, post.now)
    yield post
    post.state.close()


def test_each_batch_says_what_it_follows_on(post):
    post.fill(2)
    first = post.outbox.take(post.now)
    post.fill(2)
    second = post.outbox.take(post.now)
    assert first.after_seq == 0
    assert second.after_seq == first.events[-1].seq


def test_no_more_than_a_window_is_under_way(post):
    post.fill(2 * MAX_EVENTS_PER_BATCH)
    assert post.take() == (0, MAX_EVENTS_PER_BATCH - 1)
    assert post.take() is None
    post.acknowledge(99)
    assert post.take() == (MAX_EVENTS_PER_BATCH, MAX_EVENTS_PER_BATCH + 99)


def test_events_of_which_nothing_is_heard_come_again_though_others_follow_them(post):
    for _ in range(round(ACK_TIMEOUT_S) + 1):
        post.fill(1)
        post.take()
        post.now += 1.0
    assert post.take() == (0, round(ACK_TIMEOUT_S))


def test_half_as_many_come_again_and_twice_as_many_after_each_acknowledgement(post):
    post.fill(4 * MAX_EVENTS_PER_BATCH)
    half = MAX_EVENTS_PER_BATCH // 2
    post.take()
    post.now += ACK_TIMEOUT_S + 1
    assert post.take() == (0, half - 1)
    post.acknowledge(half - 1)
    assert post.take() == (half, half + MAX_EVENTS_PER_BATCH - 1)


def test_a_connection_that_broke_off_carries_half_as_many_at_first(post):
    post.fill(MAX_EVENTS_PER_BATCH)
    post.take()
    post.outbox.resume(0, post.now)
    assert post.take() == (0, MAX_EVENTS_PER_BATCH // 2 - 1)


def test_an_acknowledgement_that_comes_late_counts_all_the_same(post):
    post.fill(MAX_EVENTS_PER_BATCH)
    post.take()
    post.now += ACK_TIMEOUT_S + 1
    assert post.take() == (0, MAX_EVENTS_PER_BATCH // 2 - 1)
    post.acknowledge(MAX_EVENTS_PER_BATCH - 1)
    assert post.spool.count == 0
    assert post.take() is None


def test_a_number_that_was_never_sent_acknowledges_nothing(post):
    post.fill(3)
    post.acknowledge(2)
    assert post.spool.count == 3


def test_a_window_never_closes(post):
    post.fill(3)
    for _ in range(20):
        post.take()
        post.now += ACK_TIMEOUT_S + 1
    assert post.take() == (0, 0)
