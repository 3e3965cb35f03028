"""Settings: people, roles, tokens, enrolment, imports, health."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from console.accounts.models import ApiToken, Role, RoleBinding, User
from console.inventory.models import EnrolmentToken, Pool
from console.runs import health
from console.runs.models import Run
from console.workloads.models import Team
from tests.console.accounts.cast import a_user
from tests.console.inventory.cast import a_node, a_pool

pytestmark = pytest.mark.django_db
TABS = ("people", "tokens", "enrolment", "import", "health")


@pytest.fixture(autouse=True)
def no_redis(monkeypatch):
    monkeypatch.setattr(health, "broker", lambda: health.Broker(None, [("matching", None)]))


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(client: Client, tab: str) -> str:
    answer = client.get(reverse("settings"), {"tab": tab})
    assert answer.status_code == 200
    return answer.content.decode()


@pytest.mark.parametrize("tab", TABS)
@pytest.mark.parametrize("role", [Role.VIEWER, Role.ADMIN])
def test_every_tab_opens_for_everybody(tab, role):
    a_node()
    assert "Settings" in page(signed_in(a_user("ann", role)), tab)


def test_a_viewer_sees_nobody_but_themselves():
    a_user("bob", Role.OPERATOR)
    shown = page(signed_in(a_user("ann", Role.VIEWER)), "people")
    assert "ann" in shown
    assert "bob" not in shown


def test_an_admin_gives_a_role_and_takes_it_away():
    admin, bob = signed_in(a_user("ann", Role.ADMIN)), a_user("bob")
    pool = a_pool()
    admin.post(reverse("role_bind"), {"user": bob.pk, "role": "approver", "pool": pool.name})
    binding = RoleBinding.objects.get(user=bob)
    assert (binding.role, binding.pool) == (Role.APPROVER, pool)
    admin.post(reverse("role_unbind", args=[binding.pk]))
    assert not RoleBinding.objects.filter(user=bob).exists()


def test_an_admin_of_one_pool_gives_roles_there_alone():
    web, bob = a_pool("web"), a_user("bob")
    client = signed_in(a_user("ann", Role.ADMIN, pool=web))
    client.post(reverse("role_bind"), {"user": bob.pk, "role": "viewer", "pool": "web"})
    answer = client.post(reverse("role_bind"), {"user": bob.pk, "role": "viewer", "pool": ""})
    assert answer.status_code == 403
    assert [binding.pool for binding in RoleBinding.objects.filter(user=bob)] == [web]


@pytest.mark.parametrize("role", [Role.VIEWER, Role.OPERATOR, Role.APPROVER, Role.POLICY_AUTHOR])
def test_nobody_else_gives_roles(role):
    ann = a_user("ann", role)
    answer = signed_in(ann).post(
        reverse("role_bind"), {"user": ann.pk, "role": "admin", "pool": ""}
    )
    assert answer.status_code == 403
    assert not RoleBinding.objects.filter(role=Role.ADMIN).exists()


def test_the_last_admin_stays():
    client = signed_in(a_user("ann", Role.ADMIN))
    answer = client.post(reverse("role_unbind", args=[RoleBinding.objects.get().pk]), follow=True)
    assert "last admin" in answer.content.decode()
    assert RoleBinding.objects.exists()


def test_the_same_role_twice_is_told_kindly():
    ann = a_user("ann", Role.ADMIN)
    form = {"user": ann.pk, "role": "viewer", "pool": ""}
    client = signed_in(ann)
    client.post(reverse("role_bind"), form)
    assert "already" in client.post(reverse("role_bind"), form, follow=True).content.decode()


def test_an_admin_adds_a_person_who_can_do_nothing_yet():
    client = signed_in(a_user("ann", Role.ADMIN))
    form = {"username": "bob", "full_name": "Bob Roe", "password": "correct horse battery"}
    client.post(reverse("person_add"), form)
    bob = User.objects.get(username="bob")
    assert bob.check_password("correct horse battery")
    assert not bob.roles_held


@pytest.mark.parametrize(
    "bad", [{"username": ""}, {"username": "ann"}, {"username": "a b"}, {"password": "12345678"}]
)
def test_a_person_that_does_not_fit_is_not_added(bad):
    client = signed_in(a_user("ann", Role.ADMIN))
    form = {"username": "bob", "full_name": "", "password": "correct horse battery", **bad}
    assert "not added" in client.post(reverse("person_add"), form, follow=True).content.decode()
    assert User.objects.count() == 1


def test_a_person_who_is_locked_out_is_out_at_once():
    admin, bob = a_user("ann", Role.ADMIN), a_user("bob", Role.VIEWER)
    theirs = signed_in(bob)
    signed_in(admin).post(reverse("person_active", args=[bob.pk]), {"active": "0"})
    assert theirs.get(reverse("settings")).status_code == 302


def test_an_admin_cannot_lock_themselves_out():
    ann = a_user("ann", Role.ADMIN)
    signed_in(ann).post(reverse("person_active", args=[ann.pk]), {"active": "0"})
    assert User.objects.get().is_active


def test_a_token_is_shown_once():
    client = signed_in(a_user("ann"))
    first = client.post(reverse("token_new"), {"name": "ci", "days": "90"})
    token = ApiToken.objects.get()
    assert token.prefix in first.content.decode()
    assert "copy it now" in first.content.decode()
    assert "no-store" in first.headers["Cache-Control"]
    assert "copy it now" not in page(client, "tokens")


def test_a_person_revokes_their_own_tokens_only():
    signed_in(a_user("ann")).post(reverse("token_new"), {"name": "ci", "days": ""})
    token = ApiToken.objects.get()
    stranger = signed_in(a_user("bob", Role.ADMIN))
    assert stranger.post(reverse("token_revoke", args=[token.pk])).status_code == 404
    token.refresh_from_db()
    assert token.revoked_at is None


def test_an_enrolment_token_comes_with_the_command_that_uses_it():
    a_pool()
    answer = signed_in(a_user("ann", Role.ADMIN)).post(reverse("enrolment_new"), {"pool": "web"})
    text = answer.content.decode()
    assert "muxflow-agent enrol --console http://testserver" in text
    assert EnrolmentToken.objects.get().sha256 not in text


def test_only_an_admin_of_the_pool_enrols():
    a_pool()
    answer = signed_in(a_user("ann", Role.OPERATOR)).post(reverse("enrolment_new"), {"pool": "web"})
    assert answer.status_code == 403
    assert not EnrolmentToken.objects.exists()


def test_an_admin_makes_pools_and_teams():
    client = signed_in(a_user("ann", Role.ADMIN))
    client.post(reverse("pool_new"), {"name": "batch", "time_zone": "Europe/Berlin"})
    client.post(reverse("pool_new"), {"name": "a b"})
    client.post(reverse("team_add"), {"name": "research"})
    assert list(Pool.objects.values_list("name", "time_zone", "sharing_mode")) == [
        ("batch", "Europe/Berlin", "observe")
    ]
    assert Team.objects.get().name == "research"


def test_an_admin_caps_what_a_team_runs_at_once():
    team, client = Team.objects.create(name="research"), signed_in(a_user("ann", Role.ADMIN))

    def capped(typed: str) -> int | None:
        client.post(reverse("team_cap", args=[team.pk]), {"max_running": typed})
        team.refresh_from_db()
        return team.max_running

    assert [capped(typed) for typed in ("3", "many", "-1", "9999999999", "")] == [3, 3, 3, 3, None]
    address = f"/api/v1/teams/{team.pk}/cap/"
    answer = client.post(address, {"max_running": 5}, content_type="application/json")
    assert answer.json()["max_running"] == 5


def test_only_an_admin_everywhere_caps_a_team():
    team, pool = Team.objects.create(name="research"), a_pool()
    client = signed_in(a_user("ann", Role.ADMIN, pool=pool))
    assert client.post(reverse("team_cap", args=[team.pk]), {"max_running": "0"}).status_code == 403


def test_a_file_that_was_chosen_becomes_a_run():
    client = signed_in(a_user("ann", Role.ADMIN))
    client.post(reverse("import_new"), {"file": SimpleUploadedFile("small.yaml", b"nodes: []")})
    assert Run.objects.get().arguments == {"document": "nodes: []", "file_name": "small.yaml"}
    assert "Waiting" in page(client, "import")


def test_health_says_when_redis_is_away():
    assert "Redis does not answer" in page(signed_in(a_user("ann", Role.VIEWER)), "health")


def test_a_broker_that_does_not_answer_has_no_lengths(settings, monkeypatch):
    monkeypatch.undo()
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    broker = health.broker()
    assert broker.version is None
    assert {length for _, length in broker.waiting} == {None}
