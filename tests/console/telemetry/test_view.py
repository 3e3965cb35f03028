from __future__ import annotations

import json

import pytest

from console.accounts.models import Role
from console.telemetry import view
from console.telemetry.sight import sight
from console.telemetry.view import EVERYTHING
from tests.console.telemetry import cast
from tests.console.telemetry.scenes import layout

POOL_B = frozenset({2})


def test_who_sees_all_gets_the_layout_as_it_is():
    whole = layout()
    seen = view.view(whole, EVERYTHING)
    assert (seen.epoch, seen.document, seen.rows) == (whole.epoch, whole.document, None)
    assert seen.nodes.count == 2


def test_a_view_names_nothing_of_other_pools():
    seen = view.view(layout(), POOL_B)
    document = json.loads(seen.document)
    assert (document["pools"], document["nodes"]["name"], document["services"]) == (
        ["b"], ["node-1"], ["ads"],
    )  # fmt: skip
    assert document["gpus"]["id"] == seen.ids.tolist() == [13, 14]
    assert (document["gpus"]["node"], document["gpus"]["service"]) == ([0, 0], [0, -1])
    assert seen.rows is not None
    assert seen.rows.tolist() == [2, 3]


def test_a_view_has_an_epoch_of_its_own_that_others_with_the_same_sight_share():
    seen = view.view(layout(), POOL_B)
    assert seen.epoch == json.loads(seen.document)["epoch"] == view.view(layout(), POOL_B).epoch
    assert seen.epoch != layout().epoch


def test_without_a_pool_there_is_an_empty_fleet():
    seen = view.view(layout(), frozenset())
    assert (len(seen.ids), seen.nodes.count, json.loads(seen.document)["pools"]) == (0, 0, [])


@pytest.mark.django_db
def test_sight_follows_the_roles():
    pool = cast.pool()
    cast.pool("ads-us")
    everywhere, here = cast.person("ann"), cast.person("bob", pool=pool, role=Role.APPROVER)
    assert sight(everywhere) is EVERYTHING
    assert sight(here) == frozenset({pool.pk})


@pytest.mark.django_db
def test_the_document_of_a_person_names_their_pools_alone(client):
    node = cast.node()
    cast.node("node-08", token="another", pool=cast.pool("ads-us"))
    client.force_login(cast.person(pool=node.pool))
    document = client.get("/live/layout.json").json()
    assert (document["nodes"]["name"], document["pools"]) == (["node-07"], ["search-eu"])
