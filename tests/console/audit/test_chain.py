"""The chain by itself: no database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from console.audit.chain import START, Link, faults, hash_of


def a_chain(count: int = 5) -> list[Link]:
    links, previous = [], START
    for number in range(1, count + 1):
        facts = {"actor": "user:ortega", "reason": f"the {number}th"}
        sealed = hash_of(number, previous, facts)
        links.append(Link(number, facts, previous, sealed))
        previous = sealed
    return links


def told(links: list[Link], head: Link | None = None) -> list[tuple[int, str]]:
    last = head or a_chain()[-1]
    return [(fault.number, fault.what) for fault in faults(links, last.number, last.hash)]


def resealed(link: Link, **facts) -> Link:
    """As a forger would do it: the row's own hash fits again."""
    facts = link.facts | facts
    return replace(link, facts=facts, hash=hash_of(link.number, link.previous_hash, facts))


def test_an_untouched_chain_has_no_fault():
    assert told(a_chain()) == []


def test_an_empty_chain_has_no_fault():
    assert list(faults([], 0, START)) == []


@pytest.mark.parametrize("index", range(5))
def test_a_changed_entry_is_found(index):
    links = a_chain()
    links[index] = replace(links[index], facts={"actor": "nobody"})
    assert told(links) == [(index + 1, "was changed after it was sealed")]


@pytest.mark.parametrize("index", range(4))
def test_a_changed_entry_with_a_fresh_hash_is_found_by_the_next(index):
    links = a_chain()
    links[index] = resealed(links[index], reason="nothing")
    assert told(links) == [(index + 2, "does not follow from the entry before it")]


def test_the_last_entry_changed_with_a_fresh_hash_is_found_by_the_head():
    links = a_chain()
    links[-1] = resealed(links[-1], reason="nothing")
    assert told(links) == [(5, "is not the entry that was sealed last")]


@pytest.mark.parametrize("index", range(5))
def test_a_removed_entry_is_found(index):
    links = a_chain()
    del links[index]
    assert told(links) == [(index + 1, "was removed")]


def test_removing_the_end_is_found():
    assert told(a_chain()[:2]) == [(3, "to 5 were removed")]


def test_removing_everything_is_found():
    assert told([]) == [(1, "to 5 were removed")]


def test_the_hash_does_not_depend_on_key_order_or_time_zone():
    utc = datetime(2026, 9, 1, 12, tzinfo=UTC)
    there = utc.astimezone(timezone(timedelta(hours=2)))
    assert hash_of(1, START, {"a": utc, "b": 1}) == hash_of(1, START, {"b": 1, "a": there})


def test_the_hash_depends_on_everything_else():
    hashes = {
        hash_of(1, START, {"a": 1}),
        hash_of(2, START, {"a": 1}),
        hash_of(1, "1" * 64, {"a": 1}),
        hash_of(1, START, {"a": 2}),
        hash_of(1, START, {"a": "1"}),
        hash_of(1, START, {"a": None}),
    }
    assert len(hashes) == 6
