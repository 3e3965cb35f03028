"""Signing in and out."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from console.accounts.models import User

pytestmark = pytest.mark.django_db
PASSWORD = "a long enough secret"


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", password=PASSWORD)


def post(client: Client, password: str = PASSWORD, **more):
    return client.post(reverse("sign_in"), {"username": "ann", "password": password, **more})


def test_a_person_signs_in_and_lands_on_the_overview(ann):
    client = Client()
    assert post(client).headers["Location"] == reverse("overview")
    assert client.session["_auth_user_id"] == str(ann.pk)


def test_they_land_where_they_wanted_to_go(ann):
    assert post(Client(), next="/nodes/?pool=web").headers["Location"] == "/nodes/?pool=web"


@pytest.mark.parametrize("next", ["https://example.org/", "//example.org", "javascript:alert(1)"])
def test_they_are_never_sent_to_another_site(ann, next):
    assert post(Client(), next=next).headers["Location"] == reverse("overview")


def test_a_wrong_password_says_so_and_signs_nobody_in(ann):
    client = Client()
    answer = post(client, "wrong")
    assert answer.status_code == 400
    assert "_auth_user_id" not in client.session


def test_too_many_wrong_passwords_lock_the_name_for_a_while(ann, settings):
    settings.AXES_FAILURE_LIMIT = 3
    client = Client()
    for _ in range(3):
        answer = post(client, "wrong")
    assert answer.status_code == 429
    assert "Too many wrong passwords" in answer.content.decode()
    assert post(client).status_code == 429


def test_signing_out_is_never_a_get(ann):
    client = Client()
    client.force_login(ann)
    assert client.get(reverse("sign_out")).status_code == 405
    client.post(reverse("sign_out"))
    assert "_auth_user_id" not in client.session


@pytest.mark.parametrize("address", ["/healthz", "/api/v1/schema/"])
def test_probes_and_the_description_of_the_api_need_no_sign_in(address):
    assert Client().get(address).status_code == 200
