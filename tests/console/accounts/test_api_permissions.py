"""Who may do what over REST: every role against every change."""

from __future__ import annotations

import itertools

import pytest
from rest_framework.test import APIClient

from console.accounts.models import Role, User
from console.inventory.models import Pool
from console.workloads.models import OfflineJob
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import GIB, a_node, a_pool
from tests.console.workloads.cast import a_job, a_team

pytestmark = pytest.mark.django_db

JOB = {
    "name": "train",
    "team": "research",
    "work_s": 60,
    "sm_percent": 50,
    "gpu_util_percent": 80,
    "memory_bytes": GIB,
    "pools": ["web"],
}
# Address, body, the roles that may.
CHANGES = {
    "pools/web/start_sharing/": ({}, {Role.OPERATOR}),
    "pools/web/stop_sharing/": ({}, {Role.OPERATOR, Role.APPROVER}),
    "pools/web/set_mode/": ({"mode": "shadow"}, {Role.OPERATOR}),
    "nodes/node-01/cordon/": ({}, {Role.OPERATOR}),
    "nodes/node-01/drain/": ({}, {Role.OPERATOR}),
    "gpus/{gpu}/disable/": ({}, {Role.OPERATOR}),
    "gpus/{gpu}/set_mode/": ({"mode": "off"}, {Role.OPERATOR, Role.APPROVER}),
    "enrolment-tokens/": ({"pool": "web"}, set()),
    "jobs/": (JOB, {Role.OPERATOR}),
    "jobs/{job}/cancel/": ({}, {Role.OPERATOR}),
}
GLOBAL = {
    "teams/": {"name": "vision"},
    "role-bindings/": {"user": "bob", "role": "viewer", "pool": None},
    "imports/": {"document": "nodes: []"},
}


@pytest.fixture
def ids() -> dict[str, object]:
    """One node with a GPU and one job for it, in pool web."""
    a_team()
    a_user("bob")
    node = a_node(gpus=1)
    return {"gpu": node.gpus.get().pk, "job": a_job(pools=["web"]).pk}


def as_user(user: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(user)
    return client


def post(user: User, address: str, body: dict, ids: dict[str, object]) -> int:
    url = f"/api/v1/{address.format(**ids)}"
    return as_user(user).post(url, body, format="json").status_code


@pytest.mark.parametrize(("role", "address"), list(itertools.product(Role, CHANGES)))
def test_a_change_in_a_pool_takes_the_role_in_that_pool(role, address, ids):
    body, may = CHANGES[address]
    here = a_user("here", role, pool=Pool.objects.get(name="web"))
    expected = role in may | {Role.ADMIN}
    assert (post(here, address, body, ids) != 403) == expected


@pytest.mark.parametrize("address", CHANGES)
def test_a_role_in_another_pool_opens_nothing(address, ids):
    elsewhere = a_user("elsewhere", Role.ADMIN, pool=a_pool("batch"))
    assert post(elsewhere, address, CHANGES[address][0], ids) in (403, 404)


@pytest.mark.parametrize("address", CHANGES)
def test_a_person_without_a_role_is_sent_away(address, ids):
    assert post(a_user("nobody"), address, CHANGES[address][0], ids) == 403


@pytest.mark.parametrize(("role", "address"), list(itertools.product(Role, GLOBAL)))
def test_what_belongs_to_no_pool_takes_an_admin_of_all(role, address, ids):
    here = a_user("here", role, pool=Pool.objects.get(name="web"))
    everywhere = a_user("everywhere", role)
    assert post(here, address, GLOBAL[address], ids) == 403
    assert (post(everywhere, address, GLOBAL[address], ids) != 403) == (role == Role.ADMIN)


LISTS = ("pools", "nodes", "gpus", "sharing-changes", "services", "instances", "teams", "runs")


@pytest.mark.parametrize("name", [*LISTS, "jobs", "tokens"])
def test_lists_are_pages_and_open_to_a_viewer(name, ids):
    answer = as_user(a_user("ann", Role.VIEWER)).get(f"/api/v1/{name}/")
    assert set(answer.json()) == {"count", "next", "previous", "results"}


@pytest.mark.parametrize("name", ["users", "role-bindings"])
def test_people_are_listed_to_admins_alone(name, ids):
    assert as_user(a_user("ann", Role.APPROVER)).get(f"/api/v1/{name}/").status_code == 403
    assert as_user(a_user("root", Role.ADMIN)).get(f"/api/v1/{name}/").status_code == 200


def test_a_viewer_of_one_pool_sees_that_pool_alone(ids):
    a_node("other", a_pool("batch"), gpus=1)
    client = as_user(a_user("ann", Role.VIEWER, pool=Pool.objects.get(name="web")))
    for name, count in (("pools", 1), ("nodes", 1), ("gpus", 1)):
        assert client.get(f"/api/v1/{name}/").json()["count"] == count
    assert client.get("/api/v1/nodes/other/").status_code == 404


def test_a_submitted_job_comes_back_as_it_was_queued(ids):
    answer = as_user(a_user("ann", Role.OPERATOR)).post("/api/v1/jobs/", JOB, format="json")
    assert answer.status_code == 201
    assert OfflineJob.objects.get(pk=answer.json()["id"]).pools == ["web"]


def test_an_error_names_the_field_and_the_way_out(ids):
    client = as_user(a_user("ann", Role.OPERATOR))
    answer = client.post("/api/v1/jobs/", {**JOB, "work_s": -1}, format="json")
    assert answer.status_code == 400
    assert set(answer.json()) == {"detail", "fields"}
    assert set(answer.json()["fields"]) == {"work_s"}


def test_a_conflict_is_409_with_the_sentence(ids):
    client = as_user(a_user("ann", Role.OPERATOR))
    for _ in range(2):
        answer = client.post("/api/v1/nodes/node-01/cordon/", {}, format="json")
    assert answer.status_code == 409
    assert "look again" in answer.json()["detail"]


def test_an_address_that_is_not_there_is_a_sentence_in_json():
    answer = APIClient().get("/api/v1/nothing/")
    assert (answer.status_code, set(answer.json())) == (404, {"detail"})
