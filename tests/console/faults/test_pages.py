"""What the pages and the API show of a fault, and to whom."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from console import figures
from console.accounts.models import Role
from console.telemetry import live_store
from tests.console.accounts.cast import a_user
from tests.console.faults import cast
from tests.console.inventory.cast import NOW, a_pool

pytestmark = pytest.mark.django_db


@pytest.fixture
def gpu():
    return cast.a_shared_gpu()


@pytest.fixture
def client() -> Client:
    client = Client()
    client.force_login(a_user("viewer", Role.VIEWER))
    return client


def stranger() -> Client:
    """A viewer of another pool."""
    client = Client()
    client.force_login(a_user("stranger", Role.VIEWER, pool=a_pool("batch")))
    return client


def test_the_page_tells_who_was_first_who_was_hit_and_the_seconds(client, gpu):
    moments = [{"after_s": 0.0, "what": "seen"}, {"after_s": 4.25, "what": "server restarted"}]
    fault = cast.tell(gpu, moments=moments, recovered_s=4.3, ended=True)
    page = client.get(reverse("fault", args=[fault.pk])).content.decode()
    words = ("resnet-31 faulted first", "search-rank was hit", "server restarted", "Offline")
    for said in (*words, figures.quantity(4.25, "s", 2), figures.quantity(4.3, "s", 1)):
        assert said in page
    assert reverse("job", args=[fault.job_id]) in page
    assert "hx-trigger" not in page.split("<main")[1]


def test_the_page_asks_again_while_the_story_goes_on(client, gpu):
    address = reverse("fault", args=[cast.tell(gpu).pk])
    page = client.get(address).content.decode()
    assert f'hx-get="{address}" hx-trigger="every 2s"' in page
    part = client.get(address, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part
    assert "Recovering" in part


def test_a_fault_of_which_nothing_is_known_can_be_shown(client, gpu):
    fault = cast.tell(gpu, first=None, first_by="", code=None, others=[], moments=[])
    page = client.get(reverse("fault", args=[fault.pk])).content.decode()
    assert "Who faulted first is not known" in page
    assert "not told" in page


def test_a_fault_of_one_job_alone_hit_nobody_and_says_so(client, gpu):
    fault = cast.tell(gpu, others=[], ended=True)
    assert (fault.state, fault.job.faults) == ("OVER", 1)
    for address in (reverse("fault", args=[fault.pk]), reverse("gpu", args=[gpu.pk])):
        page = client.get(address).content.decode()
        assert "none was hit" in page
        assert "not seen" not in page


def test_text_of_a_node_is_text_on_the_page(client, gpu):
    fault = cast.tell(gpu, why="<script>alert(1)</script>", first=None)
    assert "<script>alert" not in client.get(reverse("fault", args=[fault.pk])).content.decode()


def test_a_fault_of_another_pool_is_not_found(gpu):
    fault = cast.tell(gpu)
    someone = stranger()
    assert someone.get(reverse("fault", args=[fault.pk])).status_code == 404
    assert someone.get(f"/api/v1/faults/{fault.pk}/").status_code == 404
    assert someone.get("/api/v1/faults/").json()["results"] == []


def test_the_api_tells_the_whole_story(client, gpu):
    fault = cast.tell(gpu)
    told = client.get(f"/api/v1/faults/{fault.pk}/").json()
    assert (told["node"], told["gpu_index"], told["state"]) == ("node-17", 0, "RECOVERING")
    assert told["first"]["name"] == "resnet-31"
    assert told["job"] == str(fault.job_id)
    assert told["recovered_s"] is None


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("node=node-17", 1), ("node=node-18", 0), ("open=true", 1), ("open=false", 0),
        ("job=resnet-31", 1), ("service=search-rank", 1), ("service=other", 0),
        ("pool=web", 1), (f"since={NOW:%Y-%m-%dT%H:%M:%SZ}", 1), ("since=2027-01-01T00:00Z", 0),
    ],
)  # fmt: skip
def test_the_list_can_be_narrowed(client, gpu, query, found):
    cast.tell(gpu)
    assert client.get(f"/api/v1/faults/?{query}").json()["count"] == found


def test_there_is_no_page_of_a_fault_that_nobody_told(client):
    assert client.get(reverse("fault", args=[uuid4()])).status_code == 404


def test_every_page_of_what_was_in_a_fault_leads_to_it(client, gpu, monkeypatch):
    monkeypatch.setattr(live_store, "read", dict)
    fault = cast.tell(gpu, recovered_s=4.3, ended=True)
    address = reverse("fault", args=[fault.pk])
    service = fault.services_hit.get()
    for name, of in (
        ("gpu", gpu.pk), ("node", gpu.node.name), ("job", fault.job_id), ("service", service.pk),
    ):  # fmt: skip
        page = client.get(reverse(name, args=[of])).content.decode()
        assert address in page, name
        assert figures.quantity(4.3, "s", 1) in page, name


def test_a_held_job_says_which_fault_it_is_held_for(client, gpu):
    now = timezone.now()
    caused = cast.tell(gpu, 1, now=now)
    cast.tell(
        gpu, 2, now=now, first=cast.online(gpu), others=[cast.offline(gpu)], why="not its own"
    )
    page = client.get(reverse("job", args=[caused.job_id])).content.decode()
    note = page.split('role="status"')[1].split("</p>")[0]
    assert "after 1 fault<" in note
    assert caused.why in note
    assert "not its own" not in note


def test_many_faults_cost_a_page_no_more_queries(client, gpu, django_assert_num_queries):
    address = reverse("node", args=[gpu.node.name])
    client.get(address)
    for seq in range(1, 8):
        cast.tell(gpu, seq)
    with django_assert_num_queries(10):
        client.get(address)
