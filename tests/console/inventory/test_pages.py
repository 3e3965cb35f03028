"""Nodes, one node, sharing modes: what they show, to whom, and at what cost."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from agents.wire.names import SharingMode
from console.accounts.models import Role
from console.evictions.models import Eviction
from console.inventory.models import Gpu, Node, Pool, SharingChange
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import NOW, a_node, a_pool
from tests.console.workloads.cast import a_service, placed

pytestmark = pytest.mark.django_db


def client(*roles: Role, pool: Pool | None = None) -> Client:
    client = Client()
    client.force_login(a_user(f"person-{pool}-{'-'.join(roles)}", *roles, pool=pool))
    return client


def get(client: Client, name: str, *args, **query) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200, answer.status_code
    return answer.content.decode()


def test_the_list_shows_each_node_with_its_counts_and_flags():
    node = a_node(gpus=2, state="CONNECTED", cordoned=True)
    placed(node.gpus.get(index=0))
    page = get(client(Role.VIEWER), "nodes")
    assert "node-01" in page
    assert "Cordoned" in page
    assert "1 node" in page


def test_a_viewer_of_one_pool_sees_its_nodes_and_no_others():
    web, batch = a_node("node-web", a_pool("web")), a_node("node-batch", a_pool("batch"))
    someone = client(Role.VIEWER, pool=web.pool)
    assert "node-batch" not in get(someone, "nodes")
    assert someone.get(reverse("node", args=[batch.name])).status_code == 404


def test_the_view_of_the_list_is_in_its_address():
    for index in range(3):
        a_node(f"node-{index}", a_pool("web" if index else "batch"), state="CONNECTED")
    page = get(client(Role.VIEWER), "nodes", pool="web", sort="-name", q="node")
    assert page.index("node-2") < page.index("node-1")
    assert "node-0" not in page


@pytest.mark.parametrize(
    "query", ["sort=nothing", "page=999", "page=x", "state=NOWHERE", "per_page=1"]
)
def test_an_address_that_makes_no_sense_is_read_kindly(query):
    a_node()
    answer = client(Role.VIEWER).get(f"{reverse('nodes')}?{query}")
    assert answer.status_code == 200


def test_a_long_list_has_pages():
    Node.objects.bulk_create(
        Node(name=f"node-{index:03}", pool=a_pool(), state_since=NOW) for index in range(120)
    )
    page = get(client(Role.VIEWER), "nodes", page=3)
    assert "101 to 120 of 120" in page


def test_more_nodes_cost_no_more_queries(django_assert_num_queries):
    someone = client(Role.VIEWER)
    get(someone, "nodes")
    for index in range(30):
        a_node(f"node-{index}", gpus=1)
    with django_assert_num_queries(7):
        get(someone, "nodes")


def test_the_page_of_a_node_shows_its_gpus_tenants_and_guests(django_assert_num_queries):
    node = a_node(gpus=8, state="CONNECTED", generation=7, observed_generation=7)
    a_service(node.gpus.get(index=0))
    placed(node.gpus.get(index=0))
    someone = client(Role.OPERATOR)
    with django_assert_num_queries(10):
        page = get(someone, "node", node.name)
    assert "search-rank" in page
    assert f"job-on-{node.gpus.get(index=0).pk}" in page


def test_a_silent_node_claims_no_state_of_its_gpus():
    node = a_node(gpus=1, state="STALE")
    page = get(client(Role.VIEWER), "node", node.name)
    assert "No live data" in page
    assert "is-healthy" not in page


def test_what_is_assumed_is_shown_as_assumed():
    node = a_node(source="imported", gpus=1)
    node.gpus.update(memory_assumed=True)
    page = get(client(Role.VIEWER), "node", node.name)
    assert "assumed" in page
    assert "Imported" in page


def test_a_closed_control_says_why():
    page = get(client(Role.VIEWER), "node", a_node().name)
    assert "You need the role operator in pool web" in page


CHANGES = ("node_cordon", "node_uncordon", "node_drain")


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.APPROVER, Role.POLICY_AUTHOR])
def test_only_an_operator_changes_a_node(name, role):
    node = a_node(cordoned=name == "node_uncordon")
    answer = client(role).post(reverse(name, args=[node.name]))
    assert answer.status_code == 403
    assert Node.objects.values("cordoned", "draining").get() == {
        "cordoned": node.cordoned,
        "draining": False,
    }


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_never_a_get(name):
    node = a_node(cordoned=name == "node_uncordon")
    client(Role.OPERATOR).get(reverse(name, args=[node.name]))
    assert Node.objects.get().cordoned == node.cordoned


def test_draining_asks_first_and_then_does_what_it_said():
    node = a_node(gpus=1)
    guest = placed(node.gpus.get())
    someone = client(Role.OPERATOR)
    assert guest.job.name in get(someone, "node_drain", node.name)
    someone.post(reverse("node_drain", args=[node.name]), {"reason": "Maintenance"})
    assert Eviction.objects.get().reason == "Maintenance"


def test_a_second_drain_is_told_kindly():
    node, someone = a_node(), client(Role.OPERATOR)
    for _ in range(2):
        answer = someone.post(reverse("node_drain", args=[node.name]), follow=True)
    assert "is being drained already" in answer.content.decode()


def test_the_dialog_of_stopping_names_what_it_stops():
    node = a_node(gpus=1)
    node.pool.sharing_mode = SharingMode.ENFORCE
    node.pool.save()
    node.gpus.update(sharing_mode=SharingMode.ENFORCE)
    placed(node.gpus.get())
    page = get(client(Role.APPROVER), "stop_sharing")
    assert "Jobs that go" in page
    assert "14" in page


def test_an_approver_stops_sharing_and_cannot_start_it():
    node = a_node(gpus=1)
    someone = client(Role.APPROVER)
    assert someone.post(reverse("sharing_start")).status_code == 403
    client(Role.OPERATOR).post(reverse("sharing_start"))
    assert Pool.objects.get().sharing_mode == SharingMode.ENFORCE
    someone.post(reverse("stop_sharing"), {"pool": node.pool.name})
    assert Pool.objects.get().sharing_mode == SharingMode.OBSERVE


def test_an_operator_of_one_pool_starts_it_and_no_other():
    web, batch = a_node("node-web", a_pool("web"), gpus=1), a_node("b", a_pool("batch"), gpus=1)
    someone = client(Role.OPERATOR, pool=web.pool)
    someone.post(reverse("sharing_start"))
    assert someone.post(reverse("sharing_start"), {"pool": "batch"}).status_code == 404
    modes = dict(Pool.objects.values_list("name", "sharing_mode"))
    assert modes == {"web": SharingMode.ENFORCE, "batch": SharingMode.OBSERVE}
    assert batch.gpus.get().sharing_mode == SharingMode.OBSERVE


def test_the_page_of_modes_tells_who_changed_what_when_and_why():
    a_node(gpus=1)
    someone = client(Role.OPERATOR)
    someone.post(reverse("sharing_start"), {"note": "first day"})
    page = get(someone, "pools")
    assert "first day" in page
    assert "person-None-operator" in page


def test_a_mode_below_is_set_by_an_approver_and_one_above_is_not():
    a_node(gpus=1)
    pool = Pool.objects.get()
    someone = client(Role.APPROVER)
    address = reverse("pool_mode", args=[pool.name])
    assert someone.post(address, {"mode": "enforce", "note": "x"}).status_code == 403
    someone.post(address, {"mode": "off", "note": "incident"})
    assert SharingChange.objects.get().after == SharingMode.OFF
    assert someone.post(address, {"mode": "nonsense"}).status_code == 404


def test_a_gpu_is_disabled_and_enabled_by_an_operator():
    gpu = a_node(gpus=1).gpus.get()
    someone = client(Role.OPERATOR)
    assert "takes no offline work" in get(someone, "gpu_disable", gpu.pk)
    someone.post(reverse("gpu_disable", args=[gpu.pk]), {"reason": "Suspect hardware"})
    assert Gpu.objects.get().disabled_reason == "Suspect hardware"
    someone.post(reverse("gpu_enable", args=[gpu.pk]))
    assert not Gpu.objects.get().disabled


def test_nobody_is_sent_anywhere_but_back_here():
    node = a_node()
    answer = client(Role.OPERATOR).post(
        reverse("node_cordon", args=[node.name]), {"next": "https://example.org/"}
    )
    assert answer.headers["Location"] == f"/nodes/{node.name}/"


def test_every_page_asks_for_a_sign_in():
    for name in ("nodes", "pools", "jobs", "services", "settings"):
        answer = Client().get(reverse(name))
        assert answer.headers["Location"].startswith(reverse("sign_in"))
