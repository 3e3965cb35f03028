from __future__ import annotations

from workers.watchdog import DEAF_AFTER_S, Watchdog


def deaf(waiting: int, active: int, now: float) -> bool:
    return Watchdog(slots=4, now=0.0).is_deaf(waiting, active, now)


def test_messages_wait_and_none_is_heard_for_long():
    assert deaf(waiting=3, active=0, now=DEAF_AFTER_S + 1)


def test_not_so_soon():
    assert not deaf(waiting=3, active=0, now=DEAF_AFTER_S - 1)


def test_without_messages_there_is_nothing_to_hear():
    assert not deaf(waiting=0, active=0, now=10 * DEAF_AFTER_S)


def test_a_full_worker_is_busy_and_not_deaf():
    assert not deaf(waiting=3, active=4, now=10 * DEAF_AFTER_S)


def test_a_message_heard_begins_anew():
    dog = Watchdog(slots=4, now=0.0)
    dog.heard(DEAF_AFTER_S)
    assert not dog.is_deaf(3, 0, DEAF_AFTER_S + 10)


def test_a_worker_that_just_became_free_has_time_to_hear():
    dog = Watchdog(slots=4, now=0.0)
    assert not dog.is_deaf(3, 4, 1_000.0)
    assert not dog.is_deaf(3, 0, 1_005.0)
    assert dog.is_deaf(3, 0, 1_000.0 + DEAF_AFTER_S)
