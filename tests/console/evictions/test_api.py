"""Evictions over REST."""

from __future__ import annotations

import pytest

from agents.wire.names import Origin
from console.accounts.models import Role, User
from console.evictions import services
from console.evictions.lifecycle import State
from tests.console.accounts.cast import a_user
from tests.console.evictions.cast import (
    NOW,
    a_dispatched,
    a_phase,
    a_proposal,
    a_viewer,
    after,
    an_approver,
    fresh,
)
from tests.console.inventory.cast import a_pool

pytestmark = pytest.mark.django_db

API = "/api/v1/evictions/"


@pytest.fixture
def signed_in(client):
    def sign_in(user: User):
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    return sign_in


def decide(client, eviction, step: str, **body: str):
    return client.post(f"{API}{eviction.pk}/{step}/", body, content_type="application/json")


def test_an_eviction_tells_all_about_itself(signed_in):
    eviction = a_dispatched()
    services.agent_phase(eviction.gpu.node, a_phase(eviction, "ACCEPTED", 11), after(11))
    found = signed_in(a_viewer()).get(f"{API}{eviction.pk}/").json()
    assert (found["job"], found["node"], found["pool"]) == ("resnet-31", "node-01", "web")
    assert (found["state"], found["decided_by"]) == ("STOPPING", "ortega")
    assert [phase["phase"] for phase in found["phases"]] == ["ACCEPTED"]


@pytest.mark.parametrize(
    ("query", "count"),
    [("open=true", 1), ("open=false", 0), ("origin=slo", 1), ("origin=move", 0), ("node=x", 0)],
)
def test_the_list_is_narrowed(signed_in, query, count):
    a_proposal()
    assert signed_in(a_viewer()).get(f"{API}?{query}").json()["count"] == count


def test_approve_then_undo_then_keep(signed_in):
    eviction, client = a_proposal(), signed_in(an_approver())
    assert decide(client, eviction, "approve", reason="Incident").json()["state"] == "APPROVED"
    assert decide(client, eviction, "undo").json()["state"] == "PROPOSED"
    assert decide(client, eviction, "keep", reason="Trial").json()["state"] == "REJECTED"


def test_the_second_gets_a_conflict_that_says_who_was_first(signed_in):
    eviction = a_proposal()
    services.keep(eviction.pk, an_approver(), "", NOW)
    answer = decide(signed_in(a_user("okafor", Role.APPROVER)), eviction, "approve")
    assert answer.status_code == 409
    assert "M. Ortega was first" in answer.json()["detail"]


def test_a_viewer_may_look_and_not_decide(signed_in):
    eviction, client = a_proposal(), signed_in(a_viewer())
    for step in ("approve", "keep", "undo", "review"):
        assert decide(client, eviction, step).status_code == 403
    assert fresh(eviction).state == State.PROPOSED


def test_another_pool_is_not_found(signed_in):
    eviction = a_proposal(origin=Origin.MOVE)
    client = signed_in(a_user("okafor", Role.ADMIN, pool=a_pool("other")))
    assert client.get(f"{API}{eviction.pk}/").status_code == 404
    assert decide(client, eviction, "approve").status_code == 404
    assert client.get(API).json()["count"] == 0


def test_nobody_gets_nothing(client):
    assert client.get(API).status_code in (401, 403)
