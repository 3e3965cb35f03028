"""A one-time token buys a node token and a signing key, once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.exceptions import PermissionDenied

from agents.wire.codec import node_key
from console.accounts.models import Role
from console.accounts.tokens import digest
from console.audit.models import Entry
from console.errors import Invalid, Refused
from console.inventory import enrolment
from console.inventory.models import EnrolmentToken, Node
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_node, a_pool, claim

pytestmark = pytest.mark.django_db


@pytest.fixture
def secret() -> str:
    return enrolment.issue(a_pool(), a_user("ann", Role.ADMIN), NOW)


def enrol(secret: str, name: str = "node-01", *gpus):
    return enrolment.enrol(secret, name, gpus, NOW)


def test_enrolling_makes_a_node_with_its_gpus_in_the_tokens_pool(secret):
    enrol(secret, "node-01", claim(0), claim(1))
    node = Node.objects.get(name="node-01")
    assert (node.pool, node.state, node.gpus.count()) == (a_pool(), "ENROLLED", 2)
    assert EnrolmentToken.objects.get().used_by == node


def test_the_credentials_open_the_gateway_and_verify_what_it_sends(secret, settings):
    credentials = enrol(secret)
    node = enrolment.nodes_for([digest(credentials.token)]).get(digest(credentials.token))
    assert node.name == "node-01"
    assert credentials.node_id == str(node.pk)
    key = node_key(settings.MASTER_SECRET.encode(), credentials.node_id)
    assert bytes.fromhex(credentials.key_hex) == key == enrolment.signing_key(node.pk)


def test_a_token_used_twice_admits_one_node(secret):
    enrol(secret)
    with pytest.raises(PermissionDenied, match="used or expired"):
        enrol(secret, "node-02")
    assert Node.objects.count() == 1


def test_an_expired_or_unknown_token_admits_nobody(secret):
    late = NOW + timedelta(hours=1)
    with pytest.raises(PermissionDenied):
        enrolment.enrol(secret, "node-01", (), late)
    with pytest.raises(PermissionDenied):
        enrol("enrol_guess")
    assert not Node.objects.exists()


@pytest.mark.parametrize("name", ["", "-x", "a b", "../x", "é", "x" * 129, "a\n"])
def test_a_bad_name_is_refused_and_the_token_stays_good(secret, name):
    with pytest.raises(Invalid):
        enrol(secret, name)
    assert enrol(secret, "node-01.example.org").token


def test_enrolling_again_closes_the_former_token(secret):
    first = enrol(secret)
    second = enrol(enrolment.issue(a_pool(), a_user("bob"), NOW))
    assert enrolment.nodes_for([digest(first.token)]).get(digest(first.token)) is None
    assert enrolment.nodes_for([digest(second.token)]).get(digest(second.token)).name == "node-01"


def test_a_connected_node_cannot_be_taken_over(secret):
    a_node(state="CONNECTED")
    with pytest.raises(Refused, match="is connected"):
        enrol(secret)


def test_a_node_of_another_pool_cannot_be_taken_over(secret):
    a_node(pool=a_pool("batch"))
    with pytest.raises(Refused, match="pool batch"):
        enrol(secret)


def test_no_secret_is_kept(secret):
    credentials = enrol(secret)
    rows = [*EnrolmentToken.objects.values(), *Node.objects.values(), *Entry.objects.values()]
    stored = " ".join(str(value) for row in rows for value in row.values())
    assert secret not in stored
    assert credentials.token not in stored
    assert credentials.key_hex not in stored


def test_an_api_token_or_nothing_opens_no_gateway():
    a_node(token_sha256="")
    assert enrolment.nodes_for([digest("")]).get(digest("")) is None
    assert enrolment.nodes_for([digest("mux_something")]).get(digest("mux_something")) is None
