"""One predictor is in force; rules and people replace it, and never two at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied

from console.accounts.models import Role
from console.audit.models import Entry
from console.errors import Invalid, Refused, SomebodyWasFirst
from console.predictor import registry
from console.predictor.models import PredictorVersion
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW
from tests.console.predictor.cast import a_report, a_version, in_force

pytestmark = pytest.mark.django_db

LATER = NOW + timedelta(hours=1)


@pytest.fixture
def engineer():
    return a_user("ortega", Role.POLICY_AUTHOR)


def states() -> dict[int, str]:
    return dict(PredictorVersion.objects.order_by("number").values_list("number", "state"))


def test_without_a_version_the_estimate_is_in_force():
    a_version()
    assert registry.active_data() is None
    assert registry.active_number() is None


def test_a_better_version_takes_over_and_the_one_before_retires():
    in_force(a_version(data=b"one"))
    in_force(a_version(a_report(0.03, active=0.04), data=b"two"), against=1)
    assert registry.active_data() == (2, b"two")
    assert states() == {1: "RETIRED", 2: "ACTIVE"}


def test_a_version_that_is_not_better_is_rejected_and_says_why():
    in_force(a_version())
    worse = a_version(a_report(0.05, active=0.04))
    assert not registry.judge(worse, 1, NOW).promote
    assert registry.active_number() == 1
    assert "not better" in PredictorVersion.objects.get(number=2).why


def test_a_candidate_compared_with_a_version_that_is_no_more_in_force_comes_too_late(engineer):
    in_force(a_version())
    late = a_version(a_report(0.03, active=0.04))
    registry.roll_back(1, engineer, "Predicts badly", LATER)
    registry.set_automatic(True, engineer, LATER)
    with pytest.raises(SomebodyWasFirst):
        registry.judge(late, 1, LATER)
    assert registry.active_number() is None


def test_of_two_who_promote_at_once_the_second_hears_who_was_first(engineer):
    in_force(a_version())
    a_version()
    a_version()
    registry.promote(2, 1, engineer, "To compare", LATER)
    with pytest.raises(SomebodyWasFirst, match="version 2 is in force meanwhile by ortega"):
        registry.promote(3, 1, engineer, "To compare", LATER)
    assert states() == {1: "RETIRED", 2: "ACTIVE", 3: "CANDIDATE"}


def test_of_two_who_promote_the_first_version_ever_one_wins(engineer):
    a_version()
    a_version()
    registry.promote(1, None, engineer, "To compare", LATER)
    with pytest.raises(SomebodyWasFirst):
        registry.promote(2, None, engineer, "To compare", LATER)


def test_a_roll_back_leads_to_what_was_in_force_before(engineer):
    in_force(a_version(data=b"one"))
    in_force(a_version(a_report(0.03, active=0.04)), against=1)
    registry.roll_back(2, engineer, "Predicts badly", LATER)
    assert registry.active_data() == (1, b"one")
    registry.roll_back(1, engineer, "Predicts badly", LATER)
    assert registry.active_data() is None


def test_after_a_roll_back_nothing_takes_over_by_itself_until_a_person_lets_it(engineer):
    in_force(a_version())
    registry.roll_back(1, engineer, "Predicts badly", LATER)
    better = a_version(a_report(0.02))
    assert not registry.judge(better, None, LATER).promote
    assert states()[2] == "CANDIDATE"
    registry.set_automatic(True, engineer, LATER)
    assert registry.judge(better, None, LATER).promote


def test_a_second_roll_back_of_the_same_version_changes_nothing(engineer):
    in_force(a_version())
    registry.roll_back(1, engineer, "Predicts badly", LATER)
    with pytest.raises(SomebodyWasFirst):
        registry.roll_back(1, engineer, "Predicts badly", LATER)


def test_every_change_is_audited_with_who_and_why(engineer):
    in_force(a_version())
    registry.roll_back(1, engineer, "Predicts badly now", LATER)
    told = Entry.objects.filter(action__startswith="predictor.").order_by("pk")
    assert list(told.values_list("action", "actor")) == [
        ("predictor.add", "system:predictor"),
        ("predictor.promote", "system:predictor"),
        ("predictor.retire", "user:ortega"),
        ("predictor.automatic", "user:ortega"),
    ]
    assert told[2].reason == "Predicts badly now"


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.APPROVER])
def test_only_a_policy_author_changes_what_is_in_force(role):
    in_force(a_version())
    other = a_user("lindqvist", role)
    for act in (
        lambda: registry.promote(1, None, other, "why", NOW),
        lambda: registry.roll_back(1, other, "why", NOW),
        lambda: registry.set_automatic(False, other, NOW),
    ):
        with pytest.raises(PermissionDenied, match="policy author"):
            act()
    assert registry.active_number() == 1


def test_a_change_without_a_reason_is_none(engineer):
    a_version()
    with pytest.raises(Invalid):
        registry.promote(1, None, engineer, " ", NOW)


def test_a_damaged_file_is_never_used():
    in_force(a_version(data=b"whole"))
    PredictorVersion.objects.update(data=b"damaged")
    assert registry.active_data() is None


def test_old_versions_keep_their_report_and_lose_their_weights(engineer, monkeypatch):
    monkeypatch.setattr(registry, "KEPT_WITH_DATA", 2)
    in_force(a_version())
    for _ in range(3):
        a_version()
    kept = {v.number: bool(v.data) for v in PredictorVersion.objects.all()}
    assert kept == {1: True, 2: False, 3: True, 4: True}
    with pytest.raises(Refused, match="weights are gone"):
        registry.promote(2, 1, engineer, "To compare", NOW)
    assert registry.active_number() == 1
