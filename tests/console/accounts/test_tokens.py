"""API tokens: shown once, kept as a hash, closed at once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from console.accounts import tokens
from console.accounts.models import ApiToken, Role
from console.audit.models import Entry
from console.errors import Invalid, SomebodyWasFirst
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW

pytestmark = pytest.mark.django_db


def test_the_secret_is_kept_nowhere():
    token, secret = tokens.create(a_user("ann"), "ci", NOW)
    stored = [str(value) for row in ApiToken.objects.values() for value in row.values()]
    told = [str(value) for row in Entry.objects.values() for value in row.values()]
    assert not any(secret in text for text in stored + told)
    assert secret.startswith(token.prefix)


def test_a_token_is_found_by_its_secret_until_it_expires():
    token, secret = tokens.create(a_user("ann"), "ci", NOW, NOW + timedelta(days=1))
    assert tokens.find(secret, NOW) == token
    assert tokens.find(secret, NOW + timedelta(days=1)) is None
    assert tokens.find(secret + "x", NOW) is None


def test_a_revoked_token_is_closed_at_once_and_only_once():
    user = a_user("ann")
    token, secret = tokens.create(user, "ci", NOW)
    tokens.revoke(token, user, NOW)
    assert tokens.find(secret, NOW) is None
    with pytest.raises(SomebodyWasFirst):
        tokens.revoke(token, user, NOW)


def test_the_token_of_a_person_who_left_is_closed():
    user = a_user("ann")
    _, secret = tokens.create(user, "ci", NOW)
    type(user).objects.update(is_active=False)
    assert tokens.find(secret, NOW) is None


@pytest.mark.parametrize("days", [-1, 0, 400])
def test_an_expiry_outside_the_coming_year_is_refused(days):
    with pytest.raises(Invalid, match="within a year"):
        tokens.create(a_user("ann"), "ci", NOW, NOW + timedelta(days=days))


def test_use_is_written_once_a_minute():
    token, secret = tokens.create(a_user("ann"), "ci", NOW)
    for seconds in (0, 30, 59, 61):
        tokens.find(secret, NOW + timedelta(seconds=seconds))
    token.refresh_from_db()
    assert token.last_used_at == NOW + timedelta(seconds=61)


def test_a_request_with_a_token_acts_as_its_user():
    _, secret = tokens.create(a_user("ann", Role.VIEWER), "ci", timezone.now())
    client = APIClient(headers={"authorization": f"Bearer {secret}"})
    assert client.get("/api/v1/schema/").status_code == 200
    assert client.get("/api/v1/pools/").status_code == 200


@pytest.mark.parametrize("header", ["Bearer nonsense", "Bearer", "Bearer \xff", ""])
def test_a_request_without_a_valid_token_is_sent_away_with_the_way_out(header):
    answer = APIClient(headers={"authorization": header}).get("/api/v1/pools/")
    assert answer.status_code == 401
    assert answer.headers["WWW-Authenticate"].startswith("Bearer")
