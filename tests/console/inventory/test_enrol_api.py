"""The one address of the API that is open: enrolment."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.utils import timezone
from rest_framework.test import APIClient

from agents.wire import credentials as wire
from console.accounts.models import Role
from console.accounts.tokens import digest
from console.inventory import api, enrolment
from console.inventory.models import Node
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import a_pool

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/enrol/"


@pytest.fixture(autouse=True)
def fresh_counts():
    cache.clear()


@pytest.fixture
def body() -> dict:
    secret = enrolment.issue(a_pool(), a_user("ann", Role.ADMIN), timezone.now())
    gpu = {"index": 0, "uuid": "GPU-1", "model": "A100", "memory_bytes": 1 << 35}
    return {"token": secret, "node": "node-01", "gpus": [gpu]}


def post(body: dict):
    return APIClient().post(ADDRESS, body, format="json")


def test_a_machine_with_a_token_gets_credentials_that_the_agent_reads(body):
    answer = post(body)
    assert answer.status_code == 201
    (credentials,) = wire.decode(b"[" + answer.content + b"]")
    (node,) = enrolment.nodes_for([digest(credentials.token)]).values()
    assert node == Node.objects.get(name="node-01")


def test_the_same_token_again_is_refused_and_tells_no_secret(body):
    post(body)
    answer = post({**body, "node": "node-02"})
    assert answer.status_code == 403
    assert "make a new one" in answer.json()["detail"]
    assert not Node.objects.filter(name="node-02").exists()


@pytest.mark.parametrize(
    "bad",
    [
        {"node": "../etc"},
        {"gpus": "none"},
        {"gpus": [{"index": 0}]},
        {"gpus": [{"index": 99, "uuid": "u", "model": "m", "memory_bytes": 1}]},
        {"token": None},
    ],
)
def test_a_body_that_does_not_fit_is_refused_and_the_token_stays_good(body, bad):
    assert post({**body, **bad}).status_code == 400
    assert post(body).status_code == 201


def test_guessing_is_slowed_down(body, monkeypatch):
    monkeypatch.setattr(api.EnrolThrottle, "rate", "5/min")
    codes = [post({**body, "token": f"enrol_{n}"}).status_code for n in range(7)]
    assert codes == [403] * 5 + [429] * 2
