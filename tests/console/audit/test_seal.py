"""Sealing the story, and finding what was done to it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from console.audit import services
from console.audit.models import Entry, Head
from console.runs import leases
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import a_pool

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 9, 1, 12, tzinfo=UTC)


def tell(count: int = 1) -> None:
    pool = a_pool()
    for number in range(count):
        services.record(
            services.system("matching"),
            "pool.change",
            pool,
            now=NOW,
            reason=f"the {number}th",
            ratio=1.0,
            nested={"b": [1, 2.5, None], "a": "ü"},
        )


def sealed(count: int = 3) -> None:
    tell(count)
    services.seal(NOW)


def what(verdict: services.Verdict) -> list[tuple[int, str]]:
    return [(fault.number, fault.what) for fault in verdict.faults]


def test_sealing_chains_what_is_new_and_nothing_twice():
    tell(2)
    assert services.seal(NOW) == 2
    tell(1)
    assert services.seal(NOW) == 1
    assert services.seal(NOW) == 0
    entries = list(Entry.objects.order_by("sealed_number"))
    assert [entry.sealed_number for entry in entries] == [1, 2, 3]
    assert entries[2].previous_hash == entries[1].hash
    assert Head.objects.get().hash == entries[2].hash


def test_an_untouched_story_verifies():
    sealed(3)
    tell(2)
    verdict = services.verify()
    assert (verdict.sealed, verdict.waiting, verdict.faults) == (3, 2, ())


def test_a_story_without_entries_verifies():
    assert services.verify() == services.Verdict(0, 0, ())


@pytest.mark.parametrize(
    "change",
    [
        {"reason": "nothing to see"},
        {"actor": "user:somebody-else"},
        {"at": NOW + timedelta(seconds=1)},
        {"object_id": "9"},
        {"data": {"ratio": 2.0}},
    ],
)
def test_a_changed_row_is_found(change):
    sealed(3)
    Entry.objects.filter(sealed_number=2).update(**change)
    assert what(services.verify()) == [(2, "was changed after it was sealed")]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_removed_row_is_found_wherever_it_stood(number):
    sealed(3)
    Entry.objects.filter(sealed_number=number).delete()
    assert what(services.verify()) == [(number, "was removed")]


def test_unsealing_a_row_is_found():
    sealed(3)
    Entry.objects.filter(sealed_number=3).update(sealed_number=None)
    assert what(services.verify()) == [(3, "was removed")]


def test_deleting_the_person_does_not_break_the_chain():
    user = a_user("ortega")
    services.record(services.person(user), "pool.change", a_pool(), now=NOW)
    services.seal(NOW)
    user.delete()
    assert services.verify().faults == ()


def test_while_another_sealer_holds_the_lease_nothing_is_sealed():
    tell()
    leases.acquire("audit.seal", "another:1", 30, NOW)
    assert services.seal(NOW) == 0
    assert services.seal(NOW + timedelta(seconds=31)) == 1


def test_a_sealer_whose_head_moved_gives_way_and_leaves_nothing(monkeypatch):
    """1. We read the head. 2. Another sealer moves it. 3. Our update finds no head."""
    sealed(1)
    tell(1)
    stale = Head.objects.get()
    Head.objects.update(number=7)
    monkeypatch.setattr(Head.objects, "get_or_create", lambda **_: (stale, False))
    assert services.seal(NOW) == 0
    assert Entry.objects.filter(sealed_number=None).count() == 1
